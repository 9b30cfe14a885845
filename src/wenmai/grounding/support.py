"""Support: which passages support a claim, by their own claims, the claims these imply, and their words."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, lru_cache

import msgspec

from wenmai.grounding.claims.claim import NAMES, Claim, ClaimKind
from wenmai.grounding.claims.counts import ITEM, same_unit
from wenmai.grounding.claims.dates import FESTIVALS
from wenmai.grounding.claims.eras import REIGNS, dynasties_of_year, reigns_of_year, sexagenary
from wenmai.grounding.claims.extraction import find_claims
from wenmai.grounding.content import Content, Span
from wenmai.grounding.lexicon import Lexicon, once_per_lexicon
from wenmai.grounding.passage_index import index_passage
from wenmai.grounding.prompt_injection import safe_sentences
from wenmai.grounding.segments import Segment
from wenmai.grounding.types import Passage
from wenmai.text.cjk import find_words, normalise
from wenmai.text.folding import fold
from wenmai.text.patterns import any_word, chinese

_Key = tuple[ClaimKind, str]

_SUFFIX = (
    "自然村|老?先生|太公|大人|将军|知县|知府|县令|进士|举人|秀才|师傅|夫人|老爷|皇帝|村长|"
    "[村镇乡县府州省市山岭河溪江湖公]"
)
LIGHT = 2
"""Weight up to which a clause has no context of its own for its values."""

_NUMERIC_YEAR = re.compile(r"-?\d{1,4}")


class PassageFacts(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """One passage, analysed for the claims that it supports.

    Attributes:
        number: the passage's number.
        title: its title, analysed.
        sentences: its sentences that may be quoted, analysed.
        words: the text of title and sentences, normalised.
        source: its title and reference, normalised; they may name a book.
        keys: its claims and those that they imply: 1523 implies its century, reign and dynasty.
        source_keys: the claims of the reference; a year of printing is true of the book alone.
        ordinals: the list positions that it names.
        lexicon: the words of its field.
        contents: the content of its sentences.
    """

    number: int
    title: Segment
    sentences: tuple[Segment, ...]
    words: str
    source: str
    keys: frozenset[_Key]
    source_keys: frozenset[_Key]
    ordinals: frozenset[int]
    lexicon: Lexicon
    contents: tuple[Content, ...]

    @cached_property
    def valued_clauses(self) -> list[tuple[Span, list[Claim]]]:
        """Its clauses that have values, with these."""
        clauses = [
            (span, [each for each in segment.claims if tokens[0].start <= each.start < tokens[-1].end])
            for segment, content in zip(self.sentences, self.contents, strict=False)
            for tokens, span in zip(content.clauses, with_context(content.clauses), strict=True)
        ]
        return [(tokens, claims) for tokens, claims in clauses if claims]

    def supports(self, claim: Claim) -> bool:
        """Whether the passage contains the claim, or one that implies it."""
        if claim.kind in NAMES and fold(normalise(claim.value)) in self.source:
            return True
        if claim.kind in NAMES:
            return (claim.kind, claim.value) in self.keys or self._has_name(claim)
        if claim.value.startswith("#"):
            return self._has_ordinal(int(claim.value[1:]))
        if claim.kind is ClaimKind.NUMBER:
            return self._has_number(claim.value)
        return (claim.kind, claim.value) in self.keys

    def describes_source(self, claim: Claim, books: Sequence[str]) -> bool:
        """Whether a claim is about this passage's own source, one of the ``books`` named beside the claim."""
        return (claim.kind, claim.value) in self.source_keys and any(
            fold(normalise(book)) in self.source for book in books
        )

    def _has_name(self, claim: Claim) -> bool:
        name = fold(normalise(claim.value))
        if name in self.words or fold(normalise(claim.text)) in self.words:
            return True
        if name.isascii():
            words = [word for word in re.split(r"[\s'’]+", name) if word not in {"of", "the", "s", ""}]
            return bool(words) and len(find_words(self.words, words)) == len(words)
        if "姓" in claim.text:
            return name[:-1] in self.words
        base = bare_name(name, self.lexicon)
        if base != name and len(base) > 1 and base in self.words:
            return True
        # A name that was extracted with too much to its left is found by its right end.
        shortest = 2 if claim.kind is ClaimKind.PLACE else 3
        return claim.kind is not ClaimKind.TITLE and any(
            name[cut:] in self.words and len(name) - cut > shortest for cut in range(1, len(name) - shortest)
        )

    def _has_ordinal(self, place: int) -> bool:
        counted = (
            float(value.partition(" ")[0])
            for kind, value in self.keys
            if kind is ClaimKind.NUMBER and value.endswith(f" {ITEM}")
        )
        return place in self.ordinals or any(total >= place for total in counted)

    def _has_number(self, value: str) -> bool:
        amount, _, unit = value.partition(" ")
        return any(same_unit(unit, other) for other in self._units.get(amount, ()))

    @cached_property
    def _units(self) -> Mapping[str, list[str]]:
        """The units of each amount; a generation or a year has none."""
        found: defaultdict[str, list[str]] = defaultdict(list)
        for kind, value in self.keys:
            if kind is ClaimKind.NUMBER:
                amount, _, unit = value.partition(" ")
                found[amount].append(unit)
        return found


def with_context(clauses: Sequence[Span]) -> list[Span]:
    """The clauses, each with the next one if it has little content of its own: 1985年，任主席."""
    words = [sum(token.weight for token in tokens if not token.form[0].isdigit()) for tokens in clauses]
    return [
        tokens if weight > LIGHT or tokens is clauses[-1] else Span((*tokens, *clauses[index + 1]))
        for index, (tokens, weight) in enumerate(zip(clauses, words, strict=True))
    ]


def bare_name(name: str, lexicon: Lexicon) -> str:
    """A Chinese name without the title or the kind of place at its end: 东山 for 东山村."""
    return _suffix(lexicon).sub("", name)


@once_per_lexicon
def _suffix(lexicon: Lexicon) -> re.Pattern[str]:
    return re.compile(f"(?:{any_word(chinese([*lexicon.words.place_kinds, *lexicon.words.titles]), _SUFFIX)})$")


def facts_of(passage: Passage, lexicon: Lexicon) -> PassageFacts:
    """The facts of a passage; cached, since the same passages are retrieved again."""
    return _numbered_facts(passage.number, passage.title, passage.text, passage.source_ref, lexicon)


@lru_cache(maxsize=4096)
def _numbered_facts(number: int, title: str, text: str, source_ref: str, lexicon: Lexicon) -> PassageFacts:
    return msgspec.structs.replace(_extract_facts(title, text, source_ref, lexicon), number=number)


@lru_cache(maxsize=2048)
def _extract_facts(title: str, text: str, source_ref: str, lexicon: Lexicon) -> PassageFacts:
    head = Segment(title, lexicon=lexicon)
    sentences = tuple(Segment(sentence, lexicon=lexicon) for sentence in safe_sentences(text))
    segments = (head, *sentences)
    return PassageFacts(
        number=0,
        title=head,
        sentences=sentences,
        words=fold(normalise("\n".join(segment.text for segment in segments))),
        source=fold(normalise(f"{title} {source_ref}")),
        keys=frozenset(key for segment in segments for claim in segment.claims for key in implied_keys(claim)),
        source_keys=frozenset(key for claim in find_claims(source_ref, lexicon) for key in implied_keys(claim)),
        ordinals=frozenset(place for segment in segments for place in segment.ordinals),
        lexicon=lexicon,
        contents=index_passage(title, text, source_ref).sentences,
    )


def collect_facts(passages: Sequence[Passage], lexicon: Lexicon) -> list[PassageFacts]:
    """The facts of each passage, in order."""
    return [facts_of(passage, lexicon) for passage in passages]


def supporting_passages(claim: Claim, facts: Sequence[PassageFacts]) -> list[int]:
    """The numbers of the passages that support a claim."""
    return [each.number for each in facts if each.supports(claim)]


def implied_keys(claim: Claim) -> Iterator[_Key]:
    """The claim's own key and those of the weaker claims that it implies."""
    yield (claim.kind, claim.value)
    if claim.kind is ClaimKind.YEAR:
        yield from _from_year(claim.value)
    elif claim.kind is ClaimKind.REIGN:
        reign = claim.value.rstrip("0123456789")
        yield (ClaimKind.REIGN, reign)
        if reign in REIGNS:
            yield from _dynasty(REIGNS[reign][0])
    elif claim.kind is ClaimKind.DYNASTY:
        yield from _dynasty(claim.value)
    elif claim.kind is ClaimKind.DATE:
        yield from _from_day(claim.value)
    elif claim.kind is ClaimKind.GENERATION:
        yield (ClaimKind.NUMBER, claim.value)


def _from_year(value: str) -> Iterator[_Key]:
    if not _NUMERIC_YEAR.fullmatch(value):
        if value.endswith("s") and len(value) > len("50s"):
            yield (ClaimKind.YEAR, f"{int(value[:-1]) // 100 + 1}c")
            yield (ClaimKind.YEAR, f"{value[-3:-1]}s")
        return
    year = int(value)
    yield (ClaimKind.NUMBER, f"{value} 年")
    yield (ClaimKind.NUMBER, value)
    if year > 0:
        yield (ClaimKind.YEAR, f"{(year - 1) // 100 + 1}c")
        yield (ClaimKind.YEAR, f"{year // 10 * 10}s")
        yield (ClaimKind.YEAR, f"{year // 10 * 10 % 100}s")
        yield (ClaimKind.YEAR, sexagenary(year))
    for reign in reigns_of_year(year):
        yield (ClaimKind.REIGN, reign)
    for dynasty in dynasties_of_year(year):
        yield (ClaimKind.DYNASTY, dynasty)


def _dynasty(name: str) -> Iterator[_Key]:
    yield (ClaimKind.DYNASTY, name)
    if name == "民国":
        yield (ClaimKind.REIGN, name)
    if name in {"北宋", "南宋"}:
        yield (ClaimKind.DYNASTY, "宋")


def _from_day(value: str) -> Iterator[_Key]:
    month, _, day = value.partition("-")
    if day:
        yield (ClaimKind.DATE, month)
        yield (ClaimKind.DATE, f"d{day}")
    if value in FESTIVALS.values():
        for name, fixed in FESTIVALS.items():
            if fixed == value:
                yield (ClaimKind.DATE, name)
