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
    """

    def __init__(self, store: Store, keys: DataKeys, keyring: Keyring, *, writes: bool, vectors: bool) -> None:
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
        """Return if the store answers."""
        await self.stored.ping()


async def encrypted(store: Store, keys: Store | None, encryption: Encryption, *, writes: bool) -> EncryptedStore:
    """The store with encryption, after a check of the master keys.

    Args:
        store: with everything else.
        keys: has the data keys; None for ``store`` itself.
        encryption: the settings.
        writes: whether what is written is encrypted, or only what is read is decrypted.

    Raises:
        InvalidInput: the master keys are malformed, or others than those of the store, or ``keys_store`` is another.
        StoreError: a store cannot be read.
    """
    masters = encryption.parsed()
    documents = store.documents
    keys_documents = documents if keys is None else keys.documents
    if documents is None or keys_documents is None:
        raise InvalidInput("keys_store", mask_url(encryption.keys_store), "the URL of a store of documents")
    keyring = Keyring(documents, keys_documents, masters)
    await keyring.check(writes=writes)
    return EncryptedStore(store, DataKeys(keys_documents, masters), keyring, writes=writes, vectors=encryption.vectors)
