"""What satisfies filters is kept only as long as the partition is unchanged, and for its own scope."""

from pathlib import Path

from wenmai.clock import system_clock
from wenmai.scope import Scope
from wenmai.stores.contracts import Search
from wenmai.stores.sqlite import matching_rows, open_store
from wenmai.stores.structs import FieldValue, SearchEntry, SearchQuery

SITE, OTHER_SITE = Scope("acme", "north"), Scope("acme", "south")


async def found(search: Search, scope: Scope, **where: FieldValue) -> list[str]:
    """The ids of the site's entries about lamps that satisfy the filter."""
    [hits] = await search.query(scope, "notes", [SearchQuery(text="lamp", where=where)], shared=True)
    return sorted(hit.id for hit in hits)


def lamp(number: int, place: str) -> SearchEntry:
    """An entry about a lamp."""
    return SearchEntry(id=f"lamp-{number}", text=f"lamp {number}", fields={"place": place, "floor": number})


async def test_every_write_is_seen_by_the_next_filtered_search(tmp_path: Path) -> None:
    """An entry that was added, one that was changed, one that was removed; and another site's are its own."""
    async with open_store(f"sqlite:///{tmp_path / 'store.db'}", clock=system_clock) as store:
        search = store.search
        await search.index(SITE, "notes", [lamp(1, "hall"), lamp(2, "yard")], shared=True)
        await search.index(OTHER_SITE, "notes", [lamp(9, "hall")], shared=True)
        assert await found(search, SITE, place="hall") == ["lamp-1"]
        await search.index(SITE, "notes", [lamp(3, "hall")], shared=True)
        assert await found(search, SITE, place="hall") == ["lamp-1", "lamp-3"]
        await search.index(SITE, "notes", [lamp(1, "yard")], shared=True)
        assert await found(search, SITE, place="hall") == ["lamp-3"]
        await search.remove(SITE, "notes", ["lamp-3"], shared=True)
        assert await found(search, SITE, place="hall") == []
        assert await found(search, SITE, place="yard", floor=2) == ["lamp-2"]
        assert await found(search, OTHER_SITE, place="hall") == ["lamp-9"]


async def test_few_lists_are_kept(tmp_path: Path) -> None:
    """However many filters are asked for."""
    async with open_store(f"sqlite:///{tmp_path / 'store.db'}", clock=system_clock) as store:
        await store.search.index(SITE, "notes", [lamp(1, "hall")], shared=True)
        for floor in range(2 * matching_rows.KEPT):
            await found(store.search, SITE, floor=floor)
        assert len(store.search._matching) == matching_rows.KEPT
