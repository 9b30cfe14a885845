"""Search by words: Chinese and English, ranked by BM25 with the statistics of the scope alone."""

from math import isclose

from wenmai.scope import Scope
from wenmai.stores.base import BM25_B, BM25_K1, Hit, SearchEntry
from wenmai.stores.conformance.case import case
from wenmai.stores.conformance.expect import equal, require
from wenmai.stores.conformance.ground import Ground
from wenmai.stores.conformance.samples import AWKWARD_TEXT
from wenmai.text.cjk import terms

PRECEPTS = {
    "p1": "孝悌为本，敬老慈幼。",
    "p2": "耕读传家，勤俭持家。",
    "p3": "睦邻里，和宗族，不以富欺贫。",
    "p4": "The elders taught their families to plough by day and read by night.",
    "p5": "Ancestral halls are repaired every ten years.",
}


def entries_of(texts: dict[str, str]) -> list[SearchEntry]:
    """An entry for each id and text."""
    return [SearchEntry(id=id_, text=text) for id_, text in texts.items()]


def ids(hits: list[Hit]) -> list[str]:
    """The ids of hits, in order."""
    return [hit.id for hit in hits]


async def _found(ground: Ground, scope: Scope, text: str) -> list[str]:
    return ids(await ground.search.query(scope, "c", text=text))


@case("search")
async def chinese_is_found_by_words_and_characters(ground: Ground) -> None:
    """A word or a character inside a Chinese sentence finds it; a word that it lacks does not."""
    scope = ground.scope()
    await ground.index(scope, "c", entries_of(PRECEPTS))
    for text, wanted in (("孝悌", ["p1"]), ("孝", ["p1"]), ("宗族", ["p3"]), ("耕读", ["p2"]), ("祠堂", [])):
        equal(await _found(ground, scope, text), wanted, f"found by {text}")
    equal(sorted(await _found(ground, scope, "孝悌与勤俭")), ["p1", "p2"], "found by two words")


@case("search")
async def english_is_found_by_stems(ground: Ground) -> None:
    """Case and ending do not matter in English, word boundaries do; Chinese beside Latin bounds it."""
    scope = ground.scope()
    await ground.index(scope, "c", entries_of(PRECEPTS | {"p6": "族谱PDF文件第12页"}))
    for text, wanted in (
        ("FAMILY", ["p4"]),
        ("elder", ["p4"]),
        ("repairing", ["p5"]),
        ("hall", ["p5"]),
        ("lough", []),
        ("pdf", ["p6"]),
        ("12", ["p6"]),
    ):
        equal(await _found(ground, scope, text), wanted, f"found by {text}")


@case("search")
async def query_text_is_text(ground: Ground) -> None:
    """Operators, quotes and brackets in a query are no syntax; text without words finds nothing."""
    scope = ground.scope()
    await ground.index(scope, "c", entries_of(PRECEPTS | {"p6": AWKWARD_TEXT}))
    for text in (
        '"孝悌',
        "孝悌*",
        "(孝悌",
        "text:孝悌",
        "-孝悌",
        "孝悌)]}'\\",
        "孝悌~2^3",
        "'; --孝悌",
        "孝悌 \x01",
    ):
        require("p1" in await _found(ground, scope, text), f"{text!r} did not find 孝悌")
    for text in ("", " ", "？！", "*", '"', "\x01", "。" * 1_000):
        equal(await _found(ground, scope, text), [], f"found by {text[:20]!r}")


@case("search")
async def word_hits_are_ordered_by_score(ground: Ground) -> None:
    """Hits come by falling ``lexical``; frequent, concentrated and rare words score higher."""
    scope = ground.scope()
    texts = {
        "a-long": "ploughing " + "field water seed buffalo " * 6,
        "b-once": "ploughing field water seed",
        "c-twice": "ploughing ploughing water seed",
        "d-rare": "lantern field water seed",
        **{f"e{number}": "field water seed" for number in range(5)},
    }
    await ground.index(scope, "c", entries_of(texts))
    hits = await ground.search.query(scope, "c", text="ploughing")
    equal(ids(hits), ["c-twice", "b-once", "a-long"], "hits for one word")
    mixed = await ground.search.query(scope, "c", text="lantern ploughing", limit=2)
    equal(ids(mixed), ["d-rare", "c-twice"], "the best hits for a rare and a less rare word")
    for found in (hits, mixed):
        scores = [hit.lexical for hit in found]
        equal(scores, sorted(scores, reverse=True), "scores, falling")
        require(all(score > 0 for score in scores), "a hit by words has score 0")


@case("search")
async def scores_follow_the_stated_parameters(ground: Ground) -> None:
    """For one word the scores relate as BM25 with k1 0.9 and b 0.4 has it, lengths counted in index terms."""
    scope = ground.scope()
    texts = {
        "a": "lantern",
        "b": "lantern lantern lantern seed",
        "c": "lantern 灯会灯火",
        "d": "water buffalo seed field plough",
    }
    await ground.index(scope, "c", entries_of(texts))
    hits = {hit.id: hit.lexical for hit in await ground.search.query(scope, "c", text="lantern")}
    equal(sorted(hits), ["a", "b", "c"], "hits")
    lengths = {id_: len(terms(text)) for id_, text in texts.items()}
    average = sum(lengths.values()) / len(lengths)

    def weight(id_: str) -> float:
        often = terms(texts[id_]).count(terms("lantern")[0])
        return often / (often + BM25_K1 * (1 - BM25_B + BM25_B * lengths[id_] / average))

    for id_ in "bc":
        found, wanted = hits[id_] / hits["a"], weight(id_) / weight("a")
        require(isclose(found, wanted, rel_tol=1e-3), f"score of {id_} over a: found {found}, wanted {wanted}")


@case("search")
async def equal_scores_go_by_id(ground: Ground) -> None:
    """Entries that score the same come in the order of their ids, and the limit cuts in that order."""
    scope = ground.scope()
    for id_ in ("b", "a2", "c", "a10"):
        await ground.index(scope, "c", [SearchEntry(id=id_, text="孝悌为本", vector=[1.0, 1.0])])
    equal(await _found(ground, scope, "孝悌"), ["a10", "a2", "b", "c"], "by words")
    hits = await ground.search.query(scope, "c", text="孝悌", limit=2)
    equal(ids(hits), ["a10", "a2"], "by words, 2 of them")
    hits = await ground.search.query(scope, "c", vector=[1.0, 1.0], limit=3)
    equal(ids(hits), ["a10", "a2", "b"], "by vector, 3 of them")


@case("search")
async def coverage_is_the_share_of_the_query(ground: Ground) -> None:
    """``coverage`` is 1 for all of the query's words, else the share of those held, rarer ones for more."""
    scope = ground.scope()
    texts = {
        "all": "lantern buffalo seed",
        "rare": "lantern plough",
        "common": "buffalo plough",
        "more": "buffalo",
    }
    await ground.index(scope, "c", entries_of(texts))
    found = {hit.id: hit for hit in await ground.search.query(scope, "c", text="buffalo lantern lantern")}
    shares = {id_: hit.coverage for id_, hit in found.items()}
    require(isclose(shares["all"], 1.0, abs_tol=1e-6), f"coverage of an entry with all words: {shares['all']}")
    require(0 < shares["common"] < shares["rare"] < 1, f"coverage by a rare and by a common word: {shares}")
    both = shares["common"] + shares["rare"]
    require(isclose(both, 1.0, abs_tol=1e-6), f"the two shares of one query add up to {both}")
    [unknown] = await ground.search.query(scope, "c", text="lantern zebra", limit=1)
    require(0 < unknown.coverage < 1, f"coverage with a word that no entry holds: {unknown.coverage}")
    require(all(0 <= share <= 1 for share in shares.values()), f"shares outside 0 to 1: {shares}")
    require(all(hit.similarity is None for hit in found.values()), "a similarity without a vector in the query")


@case("search")
async def other_scopes_change_no_score(ground: Ground) -> None:
    """200 entries of another tenant, site, user or collection, or shared ones, move no score or coverage."""
    scope = ground.scope()
    await ground.index(scope, "c", entries_of(PRECEPTS))
    before = await ground.search.query(scope, "c", text="孝悌 勤俭 family")
    equal(len(before), 3, "hits")
    noise = {f"n{number}": f"孝悌 family {'耕读' * number}" for number in range(200)} | {"p1": "孝悌" * 9}
    for stranger in ground.strangers().values():
        await ground.index(stranger, "c", entries_of(noise))
    await ground.index(scope, "other", entries_of(noise))
    await ground.index(scope, "c", entries_of(noise), shared=True)
    equal(await ground.search.query(scope, "c", text="孝悌 勤俭 family"), before, "hits afterwards")
    equal(await ground.search.count(scope, "c"), len(PRECEPTS), "entries afterwards")


@case("search", "extended")
async def filters_change_no_score(ground: Ground) -> None:
    """A filter hides entries; those that are left keep the score and coverage that they have without it."""
    scope = ground.scope()
    entries = [
        SearchEntry(id=f"e{number}", text="孝悌" * (number + 1) + " seed", fields={"half": str(number % 2)})
        for number in range(10)
    ]
    await ground.index(scope, "c", entries)
    everything = await ground.search.query(scope, "c", text="孝悌 seed")
    half = await ground.search.query(scope, "c", text="孝悌 seed", where={"half": "1"})
    equal(half, [hit for hit in everything if int(hit.id[1:]) % 2], "the filtered hits")


@case("search", "extended")
async def removed_entries_change_scores_back(ground: Ground) -> None:
    """After entries have come, been replaced and gone, every score is what it was before them."""
    scope = ground.scope()
    await ground.index(scope, "c", entries_of(PRECEPTS))
    before = await ground.search.query(scope, "c", text="孝悌 勤俭 family")
    passing = {f"n{number}": "孝悌勤俭 family" * (number + 1) for number in range(20)}
    await ground.index(scope, "c", entries_of(passing))
    await ground.index(scope, "c", entries_of(dict.fromkeys(passing, "short")))
    await ground.index(scope, "c", entries_of(PRECEPTS))
    await ground.search.remove(scope, "c", list(passing))
    after = await ground.search.query(scope, "c", text="孝悌 勤俭 family")
    equal(ids(after), ids(before), "the hits")
    for old, new in zip(before, after, strict=True):
        require(
            isclose(old.lexical, new.lexical, rel_tol=1e-9),
            f"score of {old.id}: {old.lexical}, {new.lexical}",
        )


@case("search", "extended")
async def long_texts_are_found(ground: Ground) -> None:
    """An entry of 200 000 characters is found by a word at its end."""
    scope = ground.scope()
    await ground.index(scope, "c", entries_of({"long": "耕读传家。" * 40_000 + "孝悌", "short": "耕读"}))
    equal(await _found(ground, scope, "孝悌"), ["long"], "found by its last word")
    equal(await _found(ground, scope, "耕读"), ["long", "short"], "found by a word in both")
