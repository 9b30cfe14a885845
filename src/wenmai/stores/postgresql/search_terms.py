"""Terms and names of fields that fit into an index."""

from hashlib import sha256

LONGEST_TERM = 200
"""Characters; a longer term is indexed by its prefix and a digest, so that it fits into an index entry."""


def index_term(term: str) -> str:
    """The term, or the name of a field, as stored in the index."""
    if len(term) <= LONGEST_TERM:
        return term
    return term[:LONGEST_TERM] + sha256(term.encode()).hexdigest()
