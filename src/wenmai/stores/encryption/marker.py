"""The marker of a store that has encrypted data."""

from wenmai.errors import InvalidInput
from wenmai.scope import Scope
from wenmai.stores.contracts import Documents
from wenmai.stores.records import Marker

ENCRYPTED = "encrypted"
"""Its name; the value is the id of the set of data keys."""


async def refuse_encrypted(documents: Documents) -> None:
    """Refuse a store that has encrypted data, of which everything would be read as it is.

    Raises:
        InvalidInput: it has.
        StoreError: it cannot be read.
    """
    if await documents.get(Scope("*", "*", ""), Marker, ENCRYPTED) is not None:
        raise InvalidInput("master_keys", "", "the master keys of this store, which has encrypted data")
