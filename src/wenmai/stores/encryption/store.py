"""A store of which what users say is encrypted."""

from wenmai.errors import InvalidInput, mask_url
from wenmai.stores.contracts import Documents, Logs, Search, Store
from wenmai.stores.encryption.data_keys import DataKeys
from wenmai.stores.encryption.documents import EncryptedDocuments
from wenmai.stores.encryption.keyring import Keyring
from wenmai.stores.encryption.logs import EncryptedLogs
from wenmai.stores.encryption.search import KeyedSearch
from wenmai.stores.encryption.settings import Encryption


class EncryptedStore:
    """See :class:`wenmai.stores.contracts.Store`.

    Attributes:
        name: of the store.
        writes: whether what is written is encrypted.
        encrypted: itself, see :func:`wenmai.stores.opening.encrypted_part`.
        keys: the data keys.
        keyring: the master keys.
        stored: the store as it is, with what is encrypted.
        keys_store: the store of the data keys, which may be the same.
    """

    def __init__(
        self, store: Store, keys_store: Store, keys: DataKeys, keyring: Keyring, *, writes: bool, vectors: bool
    ) -> None:
        self.keys_store: Store = keys_store
        self.encrypted: EncryptedStore = self
        self.writes: bool = writes
        self.stored: Store = store
        self.keys: DataKeys = keys
        self.keyring: Keyring = keyring
        self.name: str = store.name
        documents, logs, search = store.documents, store.logs, store.search
        self.documents: Documents | None = documents and EncryptedDocuments(documents, keys, writes=writes)
        self.logs: Logs | None = logs and EncryptedLogs(logs, keys, writes=writes)
        self.search: Search | None = search and KeyedSearch(search, keys, writes=writes, vectors=vectors)

    async def ping(self) -> None:
        """Return if both stores answer."""
        await self.stored.ping()
        if self.keys_store is not self.stored:
            await self.keys_store.ping()


async def encrypted(store: Store, keys_store: Store, encryption: Encryption, *, writes: bool) -> EncryptedStore:
    """The store with encryption, after a check of the master keys.

    Args:
        store: with everything else.
        keys_store: has the data keys; may be ``store`` itself.
        encryption: the settings.
        writes: whether what is written is encrypted, or only what is read is decrypted.

    Raises:
        InvalidInput: the master keys are malformed, or others than those of the store, or ``keys_store`` is another.
        StoreError: a store cannot be read.
    """
    masters = encryption.parsed()
    documents, keys_documents = store.documents, keys_store.documents
    if documents is None or keys_documents is None:
        raise InvalidInput("keys_store", mask_url(encryption.keys_store), "the URL of a store of documents")
    keyring = Keyring(documents, keys_documents, masters)
    await keyring.check(writes=writes)
    keys = DataKeys(keys_documents, masters, keyring.uses)
    return EncryptedStore(store, keys_store, keys, keyring, writes=writes, vectors=encryption.vectors)
