"""The hits of a search for messages: their features, their order, and the units that they stand for."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import date

from wenmai.memory.episode_entries import decoded_span, neighbour_ids, parsed_id
from wenmai.memory.recalled_items import Unit
from wenmai.retrieval.message_ranking import Question, RankedMessage, Why, asks_when, named_speakers, rank
from wenmai.retrieval.time_expressions import DAY, DaySpan
from wenmai.scope import ThreadKey
from wenmai.stores.structs import FieldValue, Hit, Range, Where


def merged(ranked: Sequence[Sequence[tuple[Hit, Why]]]) -> list[tuple[Hit, Why]]:
    """The hits of several questions, each once, by their best rank; of equal ranks that of the earlier question."""
    if len(ranked) == 1:
        return [*ranked[0]]
    places = sorted((place, part) for part, hits in enumerate(ranked) for place in range(len(hits)))
    found: dict[str, tuple[Hit, Why]] = {}
    for place, part in places:
        hit, why = ranked[part][place]
        found.setdefault(hit.id, (hit, why))
    return [*found.values()]


def units(ranked: Sequence[tuple[Hit, Why]], unit: Unit) -> Iterator[tuple[Hit, Why]]:
    """The best hit of each message or turn."""
    seen: set[tuple[ThreadKey, int]] = set()
    for hit, why in ranked:
        thread, seq = parsed_id(hit.id)
        key = (thread, number(hit, "turn") if unit == "turn" else seq)
        if key not in seen:
            seen.add(key)
            yield hit, why


def ranked_hits(
    query: str, spans: Sequence[DaySpan], hits: Mapping[str, Hit], around: Mapping[str, Hit]
) -> list[tuple[Hit, Why]]:
    """The hits, best first.

    Args:
        query: the question.
        spans: the days that it names.
        hits: by id.
        around: these, and those of neighbours, by id.
    """
    speakers = {str(hit.fields["speaker"]) for hit in hits.values()}
    question = Question(named_speakers(query, speakers), spans, asks_when(query))
    messages = [_features(hit, around, question) for hit in hits.values()]
    return [(hits[id_], why) for id_, why in rank(messages, question).items()]


def _features(hit: Hit, around: Mapping[str, Hit], question: Question) -> RankedMessage:
    fields = hit.fields
    before, after = map(around.get, neighbour_ids(hit.id))
    return RankedMessage(
        id=hit.id,
        session=str(fields["incarnation"]),
        speaker=str(fields["speaker"]),
        day=date.fromisoformat(str(fields["day"])) if question.spans else date.min,
        spans=_spans(fields.get("spans", ())) if question.spans or question.asks_when else (),
        is_question=bool(fields["question"]),
        length=number(hit, "length"),
        lexical=hit.lexical,
        similarity=hit.similarity,
        similarity_before=before.similarity if before else None,
        similarity_after=after.similarity if after else None,
        words_before=before.lexical if before else None,
        words_after=after.lexical if after else None,
    )


def _spans(values: FieldValue | Sequence[FieldValue]) -> list[DaySpan]:
    return [decoded_span(str(value)) for value in ([values] if isinstance(values, str | int | float) else values)]


def number(hit: Hit, field: str) -> int:
    """The value of a field that holds a number."""
    return int(hit.fields[field])  # type: ignore[arg-type]


def days(span: DaySpan) -> Where:
    """The filter for messages of these days."""
    if not span.yearly:
        return {"day": Range(low=span.first.isoformat(), high=(span.last + DAY).isoformat())}
    return {"month_day": [(span.first + step * DAY).isoformat()[5:] for step in range(span.days)]}
