"""The check of ``wenmai doctor`` for the policy ``encrypt``: the master keys, and the data keys that they wrap."""

from contextlib import AsyncExitStack
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Literal, NamedTuple

from wenmai.config.settings import Settings
from wenmai.errors import InvalidInput, MissingExtra, WenmaiError
from wenmai.stores.contracts import Store
from wenmai.stores.encryption.marker import refuse_encrypted
from wenmai.stores.encryption.settings import Encryption
from wenmai.stores.key_prefix import with_key_prefix
from wenmai.stores.opening import open_store, schema_at
from wenmai.stores.sqlite import path_of

if TYPE_CHECKING:
    from wenmai.stores.encryption.data_keys import DataKeys

MAKE_ONE = "make one with wenmai encryption new-key, and name its file in WENMAI_MASTER_KEYS_FILE"


class Finding(NamedTuple):
    """The state of the encryption; the text shows no key."""

    state: Literal["ok", "fail"]
    text: str


async def find_encryption(settings: Settings) -> Finding | None:
    """Whether the configured master keys can be read and open the data keys; None if nothing is or was encrypted.

    Creates nothing, and does not upgrade tables.
    """
    try:
        given = Encryption.of_settings(**settings.encryption)
        if given is None:
            return await _without_keys(settings)
        masters = ", ".join(key.key_id for key in given.parsed())
        found = await _data_keys(settings, given)
    except WenmaiError as problem:
        return Finding("fail", str(problem))
    policy = (
        "" if settings.store_policy == "encrypt" else f"; store_policy is {settings.store_policy}, so they only read"
    )
    return Finding("ok", f"master keys {masters}; {found}{policy}")


async def _without_keys(settings: Settings) -> Finding | None:
    if settings.store_policy == "encrypt":
        return Finding("fail", f"store_policy is encrypt, and no master key is configured; {MAKE_ONE}")
    async with AsyncExitStack() as stack:
        try:
            store = await _opened(stack, with_key_prefix(settings.store, settings.key_prefix))
        except WenmaiError:
            return None  # the check of the store says why
        if store is not None and store.documents is not None:
            await refuse_encrypted(store.documents)
    return None


async def _data_keys(settings: Settings, given: Encryption) -> str:
    """How many data keys there are, which all can be opened."""
    keyring, data_keys = _module("keyring"), _module("data_keys")
    async with AsyncExitStack() as stack:
        store = await _opened(stack, with_key_prefix(settings.store, settings.key_prefix))
        keys_store = await _opened(stack, given.keys_store) if given.keys_store else store
        if keys_store is None and store is not None and store.documents is not None:
            try:
                await refuse_encrypted(store.documents)
            except InvalidInput as problem:
                raise InvalidInput("keys_store", "***", "the store of the data keys; it does not exist") from problem
        if store is None or keys_store is None or store.documents is None or keys_store.documents is None:
            return "no data key is stored in tables of this version"
        ring = keyring.Keyring(store.documents, keys_store.documents, given.parsed())
        await ring.check(writes=False)
        keys: DataKeys = data_keys.DataKeys(keys_store.documents, given.parsed(), ring.uses)
        return f"opened all data keys that are stored: {await keys.check()}"


async def _opened(stack: AsyncExitStack, url: str) -> Store | None:
    """The store; None if it does not exist yet, or has older tables, which opening would change."""
    if url.lower().startswith("sqlite://") and not path_of(url).exists():
        return None
    schema = await schema_at(url)
    if schema is not None and schema.found < schema.known:
        return None
    return await stack.enter_async_context(open_store(url))


def _module(name: str) -> ModuleType:
    try:
        return import_module(f"wenmai.stores.encryption.{name}")
    except ModuleNotFoundError as missing:
        raise MissingExtra((missing.name or name).partition(".")[0], "encrypt") from missing
