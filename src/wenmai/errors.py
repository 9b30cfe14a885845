"""The exception hierarchy of Wenmai.

::

    WenmaiError
    ├── InvalidInput            a value is not allowed; names the field and the allowed values
    │   └── ConfigError         a setting is not allowed; names the key and its origin
    ├── NotFound                absent, or of another scope: the two look the same
    │   ├── SessionNotFound
    │   ├── SessionExpired      past its lifetime; it cannot be continued
    │   ├── PersonaNotFound
    │   ├── TraceNotFound
    │   ├── ScopeNotFound       not the tenant, site or user of the caller's API key or token
    │   └── ApiKeyNotFound
    ├── Unauthenticated         no valid API key or token
    ├── SigningKeysUnavailable  a token cannot be checked; retry later
    ├── Forbidden               the API key or token lacks a right
    ├── Conflict                the resource has changed meanwhile, or is busy
    │   ├── VersionConflict     the expected version is not the stored one
    │   ├── ThreadBusy          another turn of the thread is running, and ``on_conflict`` is ``reject``
    │   └── IdempotencyMismatch the Idempotency-Key was used with another request
    ├── StoreError              a store operation failed; nothing is partially written
    │   ├── StoreUnavailable    the store is unreachable or rejects writes; retry later
    │   ├── StoreTooNew         the store was written by a newer Wenmai
    │   ├── Undecipherable      stored data cannot be decrypted
    │   └── UnsupportedUrl      there is no backend for the scheme
    ├── ServiceStopping         the process is shutting down and cancelled the request; retry
    ├── Overloaded              a limit of running and waiting turns is reached; retry later
    ├── RateLimited             the caller's rate of requests is exceeded; retry later
    ├── BudgetExhausted         a hard budget is exhausted, and the request needs a model
    ├── MissingExtra            a package is not installed; names the extra that installs it
    └── ModelError              the model call failed or timed out
"""

import math
import re
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from itertools import islice

_VALUE_CHARACTERS = 80
_FIELD_CHARACTERS = 200
_ALLOWED_CHARACTERS = 500
_MAX_ITEMS = 3
_MAX_LEVELS = 3
_MAX_INTEGER_BITS = 256

_SECRET_PARAMETER = re.compile(r"([?&]pass(?:word|wd)?=)[^&#]*", re.IGNORECASE)


def mask_url(url: str) -> str:
    """The URL with its passwords, in the user part or the query, replaced by ``***``."""
    scheme, separator, rest = url.partition("://" if "://" in url else ":")
    user, at, host = rest.rpartition("@")
    if at and ":" in user:
        url = f"{scheme}{separator}{user.partition(':')[0]}:***@{host}"
    return _SECRET_PARAMETER.sub(r"\1***", url)


def bounded_repr(value: object) -> str:
    """``repr`` of a value in at most 80 characters, at a cost independent of its size.

    Only the beginning of long texts and containers is read, so self-referencing values are safe.
    """
    return _truncated(_repr(value, _MAX_LEVELS), _VALUE_CHARACTERS)


def _repr(value: object, levels: int) -> str:
    if isinstance(value, str | bytes | bytearray):
        return repr(value[: _VALUE_CHARACTERS + 1])
    if isinstance(value, int) and value.bit_length() > _MAX_INTEGER_BITS:
        return f"an integer of {value.bit_length()} bits"
    if isinstance(value, Mapping):
        pairs = islice(value.items(), _MAX_ITEMS) if levels else ()
        parts = [f"{_repr(key, 0)}: {_repr(each, levels - 1)}" for key, each in pairs]
        return f"{{{_items(parts, len(value))}}}"
    if isinstance(value, list | tuple | AbstractSet):
        items: Iterable[object] = islice(value, _MAX_ITEMS) if levels else ()
        listed = _items([_repr(each, levels - 1) for each in items], len(value))
        return f"[{listed}]" if isinstance(value, list) else f"({listed})"
    return repr(value)


def _items(parts: list[str], count: int) -> str:
    return ", ".join([*parts, "…"] if len(parts) < count else parts)


def _truncated(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"


class WenmaiError(Exception):
    """Base of all errors raised by Wenmai."""

    def name_setting(self, setting: str) -> None:
        """Prefix the message with the setting that caused the error."""
        self.args: tuple[object, ...] = (f"{setting}: {self}",)


class InvalidInput(WenmaiError):
    """A value that is not allowed.

    Attributes:
        field: the name of the invalid field, dotted if nested; at most 200 characters.
        allowed: a description of the allowed values; at most 500 characters.
    """

    def __init__(self, field: str, value: object, allowed: str) -> None:
        self.field: str = _truncated(field, _FIELD_CHARACTERS)
        self.allowed: str = _truncated(allowed, _ALLOWED_CHARACTERS)
        super().__init__(f"{self.field}: {bounded_repr(value)} is not {self.allowed}")


class ConfigError(InvalidInput):
    """A setting that is not allowed; ``origin`` is the source of its value."""

    def __init__(self, key: str, value: object, allowed: str, *, origin: str) -> None:
        super().__init__(key, value, allowed)
        self.origin = origin
        self.args: tuple[object, ...] = (f"{self.args[0]} (from {origin})",)


class NotFound(WenmaiError):
    """The resource does not exist or belongs to another scope; the two look the same."""

    what = "resource"

    def __init__(self, key: str) -> None:
        self.key = key
        super().__init__(f"no such {self.what}: {key}")


class SessionNotFound(NotFound):
    """There is no such session in the caller's scope."""

    what = "session"


class SessionExpired(NotFound):
    """The session has expired and cannot be continued."""

    what = "live session"


class PersonaNotFound(NotFound):
    """There is no such persona in the tenant and site."""

    what = "persona"


class TraceNotFound(NotFound):
    """There is no such trace in the caller's scope."""

    what = "trace"


class ScopeNotFound(NotFound):
    """The named tenant, site or user is not that of the caller's API key."""

    what = "tenant, site or user"


class ApiKeyNotFound(NotFound):
    """There is no API key with this id."""

    what = "API key"


class Unauthenticated(WenmaiError):
    """The request has no valid API key or token: none, an unknown or forged one, or one that is expired or revoked."""

    def __init__(self) -> None:
        super().__init__("a valid API key or token is needed, as Authorization: Bearer …")


class SigningKeysUnavailable(WenmaiError):
    """A token cannot be checked: the keys of the identity provider cannot be read.

    Attributes:
        retry_after: seconds to wait before a retry.
    """

    def __init__(self, retry_after: int) -> None:
        self.retry_after = retry_after
        super().__init__("the signing keys of tokens cannot be read")


class Forbidden(WenmaiError):
    """The API key or token lacks a right; ``right`` is its name."""

    def __init__(self, right: str) -> None:
        self.right = right
        super().__init__(f"the API key or token lacks the right {right}")


class Conflict(WenmaiError):
    """The resource has changed meanwhile, or is busy."""


class VersionConflict(Conflict):
    """The stored version is not the expected one (0 means absent)."""

    def __init__(self, kind: str, key: str, *, expected: int) -> None:
        self.kind = kind
        self.key = key
        self.expected = expected
        state = "absent" if expected == 0 else f"at version {expected}"
        super().__init__(f"{kind} {key} is no longer {state}")


class ThreadBusy(Conflict):
    """Another turn of the thread is running."""

    def __init__(self, session_id: str, persona_id: str) -> None:
        self.session_id = session_id
        self.persona_id = persona_id
        super().__init__(f"a turn of {session_id} with {persona_id} is still running")


class IdempotencyMismatch(Conflict):
    """The Idempotency-Key was used before with another request."""

    def __init__(self, key: str) -> None:
        self.key = key
        super().__init__(f"Idempotency-Key {key} was used before with a different request")


class StoreError(WenmaiError):
    """A store operation failed; nothing is partially written."""


class StoreUnavailable(StoreError):
    """The store is unreachable or rejects writes.

    Attributes:
        store: the backend's name, as in ``degraded``.
        retry_after: seconds to wait before a retry.
    """

    def __init__(self, store: str, reason: str, *, retry_after: int = 5) -> None:
        self.store = store
        self.retry_after = retry_after
        super().__init__(f"{store} is unavailable: {reason}")


class StoreTooNew(StoreError):
    """The store was written by a newer Wenmai."""

    def __init__(self, where: str, *, found: int, known: int) -> None:
        super().__init__(
            f"{where} has schema version {found}, this Wenmai knows up to {known}: "
            "upgrade Wenmai (pip install -U wenmai), or open a copy made by this version"
        )


class Undecipherable(StoreError):
    """Stored data cannot be decrypted: its key is gone, is another one, or the data was changed."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"stored data cannot be decrypted: {reason}")


class UnsupportedUrl(StoreError):
    """There is no backend for the scheme of the URL."""

    def __init__(self, url: str, known: list[str]) -> None:
        super().__init__(f"no store for {mask_url(url)!r}; known schemes: {', '.join(known)}")


class ServiceStopping(WenmaiError):
    """The process is shutting down and cancelled the request; retry with the same Idempotency-Key.

    Attributes:
        retry_after: seconds to wait before a retry.
    """

    retry_after = 1

    def __init__(self) -> None:
        super().__init__("the service is shutting down, and the turn was cancelled")


class Overloaded(WenmaiError):
    """The limit of running and waiting turns, of the process or of the thread, is reached.

    Attributes:
        retry_after: seconds to wait before a retry.
    """

    retry_after = 2

    def __init__(self, where: str) -> None:
        super().__init__(f"too many turns are running and waiting in this {where}")


class RateLimited(WenmaiError):
    """The requests of the API key or of the token's user exceed the rate.

    Attributes:
        retry_after: seconds to wait before a retry.
    """

    def __init__(self, requests: int, seconds: float, wait_seconds: float) -> None:
        self.retry_after: int = max(1, math.ceil(wait_seconds))
        super().__init__(f"at most {requests} requests per {seconds:.0f} s are accepted of a key or user")


class BudgetExhausted(WenmaiError):
    """A hard budget is exhausted; ``budget`` is its name: ``session``, ``user_day`` or ``tenant_day``."""

    def __init__(self, budget: str) -> None:
        self.budget = budget
        super().__init__(f"the budget {budget} is exhausted, so no model is called")


class MissingExtra(WenmaiError):
    """A package is not installed; ``extra`` is the extra that installs it, empty if none does."""

    def __init__(self, package: str, extra: str = "") -> None:
        self.extra = extra
        package_spec = f"'wenmai[{extra}]'" if extra else package
        super().__init__(f"{package} is not installed; pip install {package_spec}")


class ModelError(WenmaiError):
    """The model call failed or timed out.

    ``retryable`` says whether a retry may succeed, ``retry_after`` after how many seconds, if the provider states it,
    and ``refuses_all`` whether any other call would fail too, as with a wrong API key.
    """

    def __init__(
        self,
        model: str,
        reason: str,
        *,
        retryable: bool = False,
        retry_after: float | None = None,
        refuses_all: bool = False,
    ) -> None:
        self.model = model
        self.retryable = retryable
        self.retry_after = retry_after
        self.refuses_all = refuses_all
        super().__init__(f"{model}: {reason}")
