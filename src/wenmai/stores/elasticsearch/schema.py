"""Creating the indices, and upgrading those of an older version in place.

A version adds indices and fields, which the server does in place; what was written before stays. Every step can be
repeated: a process that is killed leaves the old version, and the next process continues.
"""

import time

from wenmai.errors import StoreTooNew, StoreUnavailable
from wenmai.stores.elasticsearch.address import Address
from wenmai.stores.elasticsearch.client import Client
from wenmai.stores.elasticsearch.indices import (
    MESSAGES,
    NAMES,
    SCHEMA,
    SCHEMA_VERSION,
    SESSIONS,
    mapping_of,
    settings_of,
)
from wenmai.stores.upgrades import OnStep, Schema, Step

_ID = "version"


async def found_schema(client: Client, address: Address) -> Schema:
    """The version of the indices, which are not changed.

    Raises:
        StoreTooNew: a newer Wenmai wrote them.
    """
    answer = await client.call("GET", f"/{client.index(SCHEMA)}/_doc/{_ID}")
    found = int(answer["_source"]["version"]) if answer.get("found") else 0
    if found > SCHEMA_VERSION:
        where = f"{address.kind} {address.prefix}_*"
        raise StoreTooNew(where, found=found, known=SCHEMA_VERSION)
    return Schema(found, SCHEMA_VERSION)


async def prepare_schema(client: Client, address: Address, on_step: OnStep) -> None:
    """Create or upgrade the indices if needed.

    Raises:
        StoreTooNew: a newer Wenmai wrote them.
    """
    found = (await found_schema(client, address)).found
    if found == SCHEMA_VERSION:
        return
    began = time.monotonic()
    counts = [await _count(client, name) for name in (SESSIONS, MESSAGES)] if found else [0, 0]
    step = Step(client.name, found, SCHEMA_VERSION, *counts)
    on_step(step)
    await _put_template(client, address)
    for name in NAMES:
        await _put_index(client, address, name)
    path = f"/{client.index(SCHEMA)}/_doc/{_ID}"
    await client.must("PUT", path, {"version": SCHEMA_VERSION}, slow=True)
    on_step(step._replace(seconds=time.monotonic() - began))


async def _put_template(client: Client, address: Address) -> None:
    """Indices of these names that are created again, as by a restore, get settings and mappings of this version."""
    for name in NAMES:
        template = {
            "index_patterns": [client.index(name)],
            "priority": 200,
            "version": SCHEMA_VERSION,
            "template": {
                "settings": {"index": settings_of(name, address.kind, address.shards)},
                "mappings": mapping_of(name),
            },
        }
        await client.must("PUT", f"/_index_template/{client.index(name)}", template, slow=True)


async def _put_index(client: Client, address: Address, name: str) -> None:
    """Create the index, or add what its mapping lacks."""
    index = client.index(name)
    body = {"settings": {"index": settings_of(name, address.kind, address.shards)}, "mappings": mapping_of(name)}
    answer = await client.call("PUT", f"/{index}", body, slow=True)
    if "error" not in answer:
        return
    if answer["error"].get("type") != "resource_already_exists_exception":
        raise StoreUnavailable(client.name, f"{index} cannot be created: {answer['error'].get('type')}")
    await client.must("PUT", f"/{index}/_mapping", mapping_of(name), slow=True)


async def _count(client: Client, name: str) -> int:
    answer = await client.call("GET", f"/{client.index(name)}/_count")
    return int(answer.get("count", 0))
