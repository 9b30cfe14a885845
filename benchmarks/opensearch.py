"""``python -m benchmarks.opensearch [URL]``: append and window beside the bare client, refreshes, search.

The URL is that of a running server without data that matters: ``opensearch://127.0.0.1:9200/bench``. Without one, a
node is started as the tests do it, with ``PYTHONPATH=tests``; nothing is measured where Java is missing. Rounds
alternate between us and the bare client; figures are medians. The bare client does what a program without Wenmai
would: it numbers in its own memory, writes question and answer with one bulk request, and reads the window by ids.
"""

import argparse
import asyncio
import shutil
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime, timedelta
from importlib import import_module
from random import Random
from secrets import token_hex
from statistics import median

import numpy as np
from opensearchpy import AsyncOpenSearch

from wenmai.clock import system_clock
from wenmai.scope import Scope, ThreadKey
from wenmai.stores.elasticsearch import ElasticsearchStore, open_store
from wenmai.stores.elasticsearch.address import parse_url
from wenmai.stores.records import NewMessage, Session
from wenmai.stores.structs import SearchEntry, SearchQuery

SCOPE = Scope("bench", "bench", "user")
WINDOW, ROUNDS, TURNS = 20, 8, 40
DIMENSION, BATCH = 384, 500
TEXT = "堂门的楹联写的是什么？请从头讲起，把祠堂的来历也说一说。" * 3
WORDS = ("祠堂", "楹联", "族谱", "家训", "农事", "灯笼", "春分", "秋收", "桥梁", "水渠", "书院", "碑刻", "渡口", "集市")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("url", nargs="?")
    parser.add_argument("--entries", type=int, default=10_000)
    arguments = parser.parse_args()
    if arguments.url is None and shutil.which("java") is None:
        print("skipped: OpenSearch: Java is not installed")
        return
    with nullcontext(arguments.url) if arguments.url else _node() as url:
        asyncio.run(measure(url, arguments.entries))


@contextmanager
def _node() -> Iterator[str]:
    """The URL of a node for as long as it is measured."""
    node = import_module("opensearch_server").OpenSearchServer()
    try:
        node.start()
        yield node.url("bench")
    finally:
        node.remove()


async def measure(url: str, entries: int) -> None:
    """Measure the server at the URL, with so many entries to search, and print."""
    async with open_store(url, clock=system_clock) as store:
        await _append_and_window(store, url)
        await _refreshes(store)
        await _search(store, entries)


def _messages() -> list[NewMessage]:
    return [NewMessage(role=role, content=TEXT) for role in ("user", "assistant")]


async def _append_and_window(store: ElasticsearchStore, url: str) -> None:
    session_id = token_hex(8)
    expires = datetime.now(UTC) + timedelta(days=1)
    await store.documents.put(SCOPE, Session(session_id=session_id, expires_at=expires, lifetime_seconds=86_400))
    key = ThreadKey(session_id, "elder")
    index, count = f"bare_{token_hex(4)}", 0
    async with AsyncOpenSearch(hosts=[parse_url(url).url]) as bare:
        await bare.indices.create(index=index, body={"settings": {"number_of_replicas": 0}})

        async def ours() -> None:
            await store.logs.append(SCOPE, key, _messages(), tail=WINDOW)

        async def theirs() -> None:
            nonlocal count
            lines: list[object] = []
            for role in ("user", "assistant"):
                count += 1
                lines.append({"index": {"_index": index, "_id": f"{session_id}-{count}", "routing": session_id}})
                lines.append(
                    {
                        "session_id": session_id,
                        "turn_id": (count + 1) // 2,
                        "role": role,
                        "content": TEXT,
                        "timestamp": datetime.now(UTC).isoformat(),
                    }
                )
            await bare.bulk(body=lines)
            wanted = range(max(1, count - WINDOW + 1), count + 1)
            docs = [{"_index": index, "_id": f"{session_id}-{seq}", "routing": session_id} for seq in wanted]
            await bare.mget(body={"docs": docs})

        await _alternate("append of 2 messages with a window of 20", ours, theirs)
        await bare.indices.delete(index=index)


async def _alternate(what: str, ours: Callable[[], Awaitable[None]], theirs: Callable[[], Awaitable[None]]) -> None:
    taken: dict[str, list[float]] = {"wenmai": [], "bare client": []}
    spent: dict[str, list[float]] = {"wenmai": [], "bare client": []}
    for round_ in range(ROUNDS + 1):
        for name, work in (("wenmai", ours), ("bare client", theirs)):
            for _ in range(TURNS):
                began, cpu = time.perf_counter(), time.process_time()
                await work()
                if round_:  # the first round warms both up
                    taken[name].append(time.perf_counter() - began)
                    spent[name].append(time.process_time() - cpu)
    for name, seconds in taken.items():
        print(f"{what}: {name} {_ms(seconds)}, {_ms(spent[name])} of CPU here")
    print(f"ratio {median(taken['wenmai']) / median(taken['bare client']):.2f}")


async def _refreshes(store: ElasticsearchStore) -> None:
    for what, work in (
        ("a listing, which refreshes", lambda: store.documents.list(SCOPE, Session, limit=1)),
        ("a read by key", lambda: store.documents.get(SCOPE, Session, "absent")),
    ):
        seconds = []
        for _ in range(100):
            began = time.perf_counter()
            await work()
            seconds.append(time.perf_counter() - began)
        print(f"{what}: {_ms(seconds)}")


async def _search(store: ElasticsearchStore, entries: int) -> None:
    random, generator = Random(1), np.random.default_rng(1)
    vectors = generator.standard_normal((entries, DIMENSION)).astype(np.float32)
    texts = [" ".join(random.choices(WORDS, k=8)) + f" 第{number}条" for number in range(entries)]
    collection = token_hex(4)
    began = time.perf_counter()
    for start in range(0, entries, BATCH):
        numbers = range(start, min(entries, start + BATCH))
        batch = [
            SearchEntry(id=f"{n}", text=texts[n], vector=vectors[n].tolist(), fields={"half": n % 2}) for n in numbers
        ]
        await store.search.index(SCOPE, collection, batch, shared=True)
    print(f"indexing: {(time.perf_counter() - began) / entries * 1_000:.2f} ms an entry")
    for what, fields in {
        "words": {"text": "祠堂的楹联"},
        "vector": {"vector": vectors[7].tolist()},
        "both, pool 200": {"text": "祠堂的楹联", "vector": vectors[7].tolist()},
        "both, filtered": {"text": "祠堂的楹联", "vector": vectors[7].tolist(), "where": {"half": 1}},
    }.items():
        seconds = []
        for _ in range(30):
            began = time.perf_counter()
            await store.search.query(SCOPE, collection, [SearchQuery(**fields)], shared=True)
            seconds.append(time.perf_counter() - began)
        print(f"search by {what} over {entries:,} entries: {_ms(seconds)}")
    similar = vectors @ vectors[7] / np.linalg.norm(vectors, axis=1)
    nearest = {f"{number}" for number in np.argsort(-similar)[:10]}
    [hits] = await store.search.query(SCOPE, collection, [SearchQuery(vector=vectors[7].tolist())], shared=True)
    print(f"of the nearest 10, found: {len(nearest & {hit.id for hit in hits})}")


def _ms(seconds: list[float]) -> str:
    return f"{median(seconds) * 1_000:.2f} ms"


if __name__ == "__main__":
    main()
