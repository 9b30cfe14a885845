"""Data keys: created once, bound to their user, and replaced when their user was erased."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from wenmai.errors import Undecipherable
from wenmai.scope import Scope, ThreadKey
from wenmai.stores.contracts import Documents
from wenmai.stores.encryption.data_keys import DATA_KEYS_SCOPE, DataKeys
from wenmai.stores.encryption.documents import EncryptedDocuments
from wenmai.stores.encryption.keyring import Keyring
from wenmai.stores.encryption.logs import EncryptedLogs
from wenmai.stores.encryption.settings import Encryption, new_master_key
from wenmai.stores.opening import open_store
from wenmai.stores.records import DataKeyRecord, NewMessage, Preferences, Session

OWNER = Scope("tenant", "site", "owner")
FIRST, SECOND = new_master_key("first"), new_master_key("second")
"""Master keys."""
END = datetime.now(UTC) + timedelta(days=1)


@asynccontextmanager
async def documents_of() -> AsyncIterator[Documents]:
    """An empty store's documents."""
    async with open_store("memory://") as store:
        assert store.documents is not None
        yield store.documents


def keys_in(documents: Documents, master_keys: str = FIRST) -> DataKeys:
    """The data keys as a process of its own sees them."""
    masters = Encryption(master_keys=master_keys).parsed()
    return DataKeys(documents, masters, Keyring(documents, documents, masters).uses)


async def test_processes_that_begin_at_once_get_the_same_key() -> None:
    """It is created once; another user has another one, and so has another site."""
    async with documents_of() as documents:
        processes = [keys_in(documents) for _ in range(5)]
        found = await asyncio.gather(*(keys.current(OWNER) for keys in processes))
        others = [await processes[0].current(OWNER._replace(**{part: "x"})) for part in Scope._fields]
        stored = await documents.list(DATA_KEYS_SCOPE, DataKeyRecord)
    sealed = found[0].seal(b"x", b"place")
    assert {key.open(sealed, b"place") for key in found} == {b"x"}
    assert len({key.key_id for key in [*found, *others]}) == len(stored.items) == 4


async def test_a_key_that_was_put_in_the_place_of_anothers_is_refused() -> None:
    """A wrapped key is bound to its user; one of the same user under another master key is not unwrapped."""
    async with documents_of() as documents:
        keys = keys_in(documents)
        await keys.current(OWNER)
        await keys.current(OWNER._replace(user_id="other"))
        mine, other = [each.record for each in (await documents.list(DATA_KEYS_SCOPE, DataKeyRecord)).items]
        swapped = replace(mine, wrapped=other.wrapped, key_id=other.key_id)
        await documents.put(DATA_KEYS_SCOPE, swapped)
        scope = Scope(mine.for_tenant, mine.for_site, mine.for_user)
        with pytest.raises(Undecipherable, match="did not wrap"):
            await keys_in(documents).current(scope)
        with pytest.raises(Undecipherable, match="first is not among master_keys"):
            await keys_in(documents, SECOND).current(scope)


async def test_a_session_that_is_created_while_its_user_is_erased_can_be_read() -> None:
    """A process that has cached the erased key stores the session again, and others learn of the new key by it."""
    async with documents_of() as documents:
        eraser, creator, reader = (keys_in(documents) for _ in range(3))
        former = await creator.current(OWNER)
        await reader.current(OWNER)
        await eraser.forget(OWNER)
        session = Session(session_id="s1", expires_at=END, lifetime_seconds=60, title="mine")
        stored = await EncryptedDocuments(documents, creator, writes=True).put(OWNER, session, expected=0)
        found = await EncryptedDocuments(documents, reader, writes=True).get(OWNER, Session, "s1")
        assert found is not None
        assert found.record.title == stored.record.title == "mine"
        assert (await reader.current(OWNER)).key_id == (await creator.current(OWNER)).key_id != former.key_id


async def test_a_process_with_an_erased_key_in_its_cache_does_not_write_with_it() -> None:
    """Neither a record nor a message, into a session of the user that another process has created since."""
    async with open_store("memory://") as store:
        assert store.documents is not None
        assert store.logs is not None
        eraser, creator, writer, reader = (keys_in(store.documents) for _ in range(4))
        documents = EncryptedDocuments(store.documents, writer, writes=True)
        logs = EncryptedLogs(store.logs, writer, writes=True)
        await writer.current(OWNER)
        await eraser.forget(OWNER)
        session = Session(session_id="s1", expires_at=END, lifetime_seconds=60)
        await EncryptedDocuments(store.documents, creator, writes=True).put(OWNER, session)
        await documents.put(OWNER, Preferences(session_id="s1", interest_tags=["zebra"]))
        found = await EncryptedDocuments(store.documents, reader, writes=True).get(OWNER, Preferences, "s1")
        assert found is not None
        assert found.record.interest_tags == ["zebra"]
        await eraser.forget(OWNER)
        await documents.delete(OWNER, Session, "s1")
        await EncryptedDocuments(store.documents, creator, writes=True).put(OWNER, session)
        thread = ThreadKey("s1", "assistant")
        await logs.append(OWNER, thread, [NewMessage(role="user", content="zebra")])
        [message] = await EncryptedLogs(store.logs, keys_in(store.documents), writes=True).latest(OWNER, thread, 1)
        assert message.content == "zebra"


async def test_wrapping_again_goes_on_where_it_was_interrupted() -> None:
    """Each key is wrapped once, and opens what it has encrypted."""
    async with documents_of() as documents:
        owners = [OWNER._replace(user_id=f"u{number}") for number in range(5)]
        sealed = [(await keys_in(documents).current(owner)).seal(b"x", b"place") for owner in owners]
        both = keys_in(documents, f"{SECOND},{FIRST}")

        def interrupted(count: int) -> None:
            if count == 2:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            await both.rewrap(interrupted)
        wrapped = await both.rewrap()
        second = keys_in(documents, SECOND)
        opened = [
            (await second.current(owner)).open(text, b"place") for owner, text in zip(owners, sealed, strict=True)
        ]
    assert (wrapped, opened) == (3, [b"x"] * 5)
