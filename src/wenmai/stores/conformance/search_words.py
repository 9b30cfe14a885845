"""Lexical search: Chinese and English, ranked by BM25 with the statistics of the scope alone."""

from itertools import permutations
from math import isclose

from wenmai.scope import Scope
from wenmai.stores.conformance.case import case
from wenmai.stores.conformance.expect import equal, require
from wenmai.stores.conformance.harness import Harness
from wenmai.stores.conformance.samples import AWKWARD_TEXT
from wenmai.stores.contracts import BM25_B, BM25_K1
from wenmai.stores.structs import Hit, SearchEntry
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


async def _found(harness: Harness, scope: Scope, text: str) -> list[str]:
    return ids(await harness.hits(scope, "c", text=text))


@case("search")
async def chinese_is_found_by_words_and_characters(harness: Harness) -> None:
    """A word or a character of a Chinese sentence finds it; a word that it does not contain does not."""
    scope = harness.scope()
    await harness.index(scope, "c", entries_of(PRECEPTS))
    for text, wanted in (("孝悌", ["p1"]), ("孝", ["p1"]), ("宗族", ["p3"]), ("耕读", ["p2"]), ("祠堂", [])):
        equal(await _found(harness, scope, text), wanted, f"found by {text}")
    equal(sorted(await _found(harness, scope, "孝悌与勤俭")), ["p1", "p2"], "found by two words")


@case("search")
async def traditional_and_simplified_find_each_other(harness: Harness) -> None:
    """A text in traditional characters is found by simplified ones, and the other way round, with the same score."""
    scope = harness.scope()
    await harness.index(scope, "c", entries_of(PRECEPTS | {"p6": "通濟橋建於雍正六年。"}))
    hits = await harness.hits(scope, "c", text="通济桥")
    equal(ids(hits), ["p6"], "found by simplified characters")
    equal(await harness.hits(scope, "c", text="通濟橋"), hits, "hits by traditional characters")
    equal(await _found(harness, scope, "勤儉"), ["p2"], "a simplified text by traditional characters")


@case("search")
async def scores_are_equal_to_the_last_bit(harness: Harness) -> None:
    """Scores are equal to the last bit if their terms add up to the same in another order, and then ids decide."""
    scope = harness.scope()
    words = ("river", "stone", "cloud", "apple")
    texts = {
        f"e{number:02}": " ".join(" ".join([word] * times) for word, times in zip(words, counts, strict=True))
        for number, counts in enumerate(permutations((1, 2, 3, 5)))
    }
    await harness.index(scope, "c", entries_of(dict(reversed(texts.items()))))
    equal(ids(await harness.hits(scope, "c", text=" ".join(words), limit=24)), list(texts), "all")
    equal(ids(await harness.hits(scope, "c", text=" ".join(words), limit=3)), list(texts)[:3], "the first")


@case("search")
async def long_questions_are_searched(harness: Harness) -> None:
    """A question of 20 000 different words finds the entry that has one of them, with and without a vector."""
    scope = harness.scope()
    await harness.index(scope, "c", [SearchEntry(id="a", text="孝 19999", vector=[1.0, 0.0])])
    text = " ".join(map(str, range(20_000)))
    equal(ids(await harness.hits(scope, "c", text=text)), ["a"], "by words")
    equal(ids(await harness.hits(scope, "c", text=text, vector=[0.0, 1.0])), ["a"], "by words and vector")


@case("search")
async def english_is_found_by_stems(harness: Harness) -> None:
    """English ignores case and endings but respects word boundaries; adjacent Chinese is a word boundary."""
    scope = harness.scope()
    await harness.index(scope, "c", entries_of(PRECEPTS | {"p6": "族谱PDF文件第12页"}))
    for text, wanted in (
        ("FAMILY", ["p4"]),
        ("elder", ["p4"]),
        ("repairing", ["p5"]),
        ("hall", ["p5"]),
        ("lough", []),
        ("pdf", ["p6"]),
        ("12", ["p6"]),
    ):
        equal(await _found(harness, scope, text), wanted, f"found by {text}")


@case("search")
async def query_text_has_no_syntax(harness: Harness) -> None:
    """Operators, quotes and brackets in a query are not syntax; text without words finds nothing."""
    scope = harness.scope()
    await harness.index(scope, "c", entries_of(PRECEPTS | {"p6": AWKWARD_TEXT}))
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
        require("p1" in await _found(harness, scope, text), f"{text!r} did not find 孝悌")
    for text in ("", " ", "？！", "*", '"', "\x01", "。" * 1_000):
        equal(await _found(harness, scope, text), [], f"found by {text[:20]!r}")


@case("search")
async def word_hits_are_ordered_by_score(harness: Harness) -> None:
    """Hits are ordered by descending ``lexical``; frequent, concentrated and rare words score higher."""
    scope = harness.scope()
    texts = {
        "a-long": "ploughing " + "field water seed buffalo " * 6,
        "b-once": "ploughing field water seed",
        "c-twice": "ploughing ploughing water seed",
        "d-rare": "lantern field water seed",
        **{f"e{number}": "field water seed" for number in range(5)},
    }
    await harness.index(scope, "c", entries_of(texts))
    hits = await harness.hits(scope, "c", text="ploughing")
    equal(ids(hits), ["c-twice", "b-once", "a-long"], "hits for one word")
    mixed = await harness.hits(scope, "c", text="lantern ploughing", limit=2)
    equal(ids(mixed), ["d-rare", "c-twice"], "the best hits for a rare and a less rare word")
    for found in (hits, mixed):
        scores = [hit.lexical for hit in found]
        equal(scores, sorted(scores, reverse=True), "scores, falling")
        require(all(score > 0 for score in scores), "a hit by words has score 0")


@case("search")
async def scores_follow_the_bm25_parameters(harness: Harness) -> None:
    """For one word the ratios of scores are those of BM25 with k1 0.9 and b 0.4, lengths counted in index terms."""
    scope = harness.scope()
    texts = {
        "a": "lantern",
        "b": "lantern lantern lantern seed",
        "c": "lantern 灯会灯火",
        "d": "water buffalo seed field plough",
    }
    await harness.index(scope, "c", entries_of(texts))
    hits = {hit.id: hit.lexical for hit in await harness.hits(scope, "c", text="lantern")}
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
async def equal_scores_are_ordered_by_id(harness: Harness) -> None:
    """Entries with equal scores are ordered by id, and the limit applies in that order."""
    scope = harness.scope()
    for id_ in ("b", "a2", "c", "a10"):
        await harness.index(scope, "c", [SearchEntry(id=id_, text="孝悌为本", vector=[1.0, 1.0])])
    equal(await _found(harness, scope, "孝悌"), ["a10", "a2", "b", "c"], "by words")
    hits = await harness.hits(scope, "c", text="孝悌", limit=2)
    equal(ids(hits), ["a10", "a2"], "by words, 2 of them")
    hits = await harness.hits(scope, "c", vector=[1.0, 1.0], limit=3)
    equal(ids(hits), ["a10", "a2", "b"], "by vector, 3 of them")


@case("search")
async def coverage_is_the_share_of_the_query(harness: Harness) -> None:
    """``coverage`` is 1 for all of the query's words, else the share of those contained, weighted by rarity."""
    scope = harness.scope()
    texts = {
        "all": "lantern buffalo seed",
        "rare": "lantern plough",
        "common": "buffalo plough",
        "more": "buffalo",
    }
    await harness.index(scope, "c", entries_of(texts))
    found = {hit.id: hit for hit in await harness.hits(scope, "c", text="buffalo lantern lantern")}
    shares = {id_: hit.coverage for id_, hit in found.items()}
    require(isclose(shares["all"], 1.0, abs_tol=1e-6), f"coverage of an entry with all words: {shares['all']}")
    require(0 < shares["common"] < shares["rare"] < 1, f"coverage by a rare and by a common word: {shares}")
    both = shares["common"] + shares["rare"]
    require(isclose(both, 1.0, abs_tol=1e-6), f"the two shares of one query add up to {both}")
    [unknown] = await harness.hits(scope, "c", text="lantern zebra", limit=1)
    require(0 < unknown.coverage < 1, f"coverage with a word that no entry holds: {unknown.coverage}")
    require(all(0 <= share <= 1 for share in shares.values()), f"shares outside 0 to 1: {shares}")
    require(all(hit.similarity is None for hit in found.values()), "a similarity without a vector in the query")


@case("search")
async def other_scopes_change_no_score(harness: Harness) -> None:
    """200 entries of another tenant, site, user or collection, or shared ones, change no score or coverage."""
    scope = harness.scope()
    await harness.index(scope, "c", entries_of(PRECEPTS))
    before = await harness.hits(scope, "c", text="孝悌 勤俭 family")
    equal(len(before), 3, "hits")
    noise = {f"n{number}": f"孝悌 family {'耕读' * number}" for number in range(200)} | {"p1": "孝悌" * 9}
    for stranger in harness.foreign_scopes().values():
        await harness.index(stranger, "c", entries_of(noise))
    await harness.index(scope, "other", entries_of(noise))
    await harness.index(scope, "c", entries_of(noise), shared=True)
    equal(await harness.hits(scope, "c", text="孝悌 勤俭 family"), before, "hits afterwards")
    equal(await harness.count(scope, "c"), len(PRECEPTS), "entries afterwards")


@case("search", "extended")
async def filters_change_no_score(harness: Harness) -> None:
    """A filter hides entries; the others keep the score and coverage that they have without it."""
    scope = harness.scope()
    entries = [
        SearchEntry(id=f"e{number}", text="孝悌" * (number + 1) + " seed", fields={"half": str(number % 2)})
        for number in range(10)
    ]
    await harness.index(scope, "c", entries)
    everything = await harness.hits(scope, "c", text="孝悌 seed")
    half = await harness.hits(scope, "c", text="孝悌 seed", where={"half": "1"})
    equal(half, [hit for hit in everything if int(hit.id[1:]) % 2], "the filtered hits")


@case("search", "extended")
async def removing_entries_restores_scores(harness: Harness) -> None:
    """After entries were added, replaced and removed, every score is as before."""
    scope = harness.scope()
    await harness.index(scope, "c", entries_of(PRECEPTS))
    before = await harness.hits(scope, "c", text="孝悌 勤俭 family")
    passing = {f"n{number}": "孝悌勤俭 family" * (number + 1) for number in range(20)}
    await harness.index(scope, "c", entries_of(passing))
    await harness.index(scope, "c", entries_of(dict.fromkeys(passing, "short")))
    await harness.index(scope, "c", entries_of(PRECEPTS))
    await harness.search.remove(scope, "c", list(passing))
    after = await harness.hits(scope, "c", text="孝悌 勤俭 family")
    equal(ids(after), ids(before), "the hits")
    for old, new in zip(before, after, strict=True):
        require(
            isclose(old.lexical, new.lexical, rel_tol=1e-9),
            f"score of {old.id}: {old.lexical}, {new.lexical}",
        )


@case("search", "extended")
async def long_texts_are_found(harness: Harness) -> None:
    """An entry of 200 000 characters is found by a word at its end."""
    scope = harness.scope()
    await harness.index(scope, "c", entries_of({"long": "耕读传家。" * 40_000 + "孝悌", "short": "耕读"}))
    equal(await _found(harness, scope, "孝悌"), ["long"], "found by its last word")
    equal(await _found(harness, scope, "耕读"), ["long", "short"], "found by a word in both")
