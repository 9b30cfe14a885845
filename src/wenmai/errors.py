"""Every error that Wenmai raises on purpose.

::

    WenmaiError
    ├── InvalidInput            a value is not allowed; names the field and what is
    │   └── ConfigError         a setting is not allowed; names the key and where it came from
    ├── NotFound                absent, or owned by somebody else: the two are one
    │   ├── SessionNotFound
    │   ├── SessionExpired      known, but past its lifetime: it is not continued
    │   ├── PersonaNotFound
    │   └── TraceNotFound
    ├── Conflict                the thing changed under the caller, or is busy
    │   ├── VersionConflict     the expected version is not the stored one
    │   ├── ThreadBusy          another turn of the thread is running and ``reject`` was asked for
    │   └── IdempotencyMismatch the key was used before with another request
    ├── StoreError              the store did not do what was asked; nothing is half-written
    │   ├── StoreUnavailable    it cannot be reached or refuses writes; worth a retry later
    │   ├── StoreTooNew         written by a newer Wenmai than this one
    │   └── UnsupportedUrl      no backend of that scheme
    ├── ServiceStopping         the process is about to end and gave the request up; another process may take it
    ├── Overloaded              as many turns run and wait as the process allows; worth a retry later
    ├── BudgetExhausted         a hard budget is used up, and nothing but a model could do what was asked
    ├── MissingExtra            a package is needed that an extra installs; names the extra
    └── ModelError              the model failed, or did not answer in time
"""

import re
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from itertools import islice

_SHOWN = 80
_FIELD_SHOWN = 200
_ALLOWED_SHOWN = 500
_ITEMS_SHOWN = 3
_LEVELS_SHOWN = 3
_DIGITS_SHOWN_BITS = 256

_SECRET_PARAMETER = re.compile(r"([?&]pass(?:word|wd)?=)[^&#]*", re.IGNORECASE)


def mask_url(url: str) -> str:
    """The URL with ``***`` for the password of its user part or its query; for messages and listings."""
    scheme, separator, rest = url.partition("://" if "://" in url else ":")
    user, at, host = rest.rpartition("@")
    if at and ":" in user:
        url = f"{scheme}{separator}{user.partition(':')[0]}:***@{host}"
    return _SECRET_PARAMETER.sub(r"\1***", url)


def shown(value: object) -> str:
    """``repr`` of a value, bounded: at most 80 characters, and the cost does not depend on the value's size.

    Of long texts and containers only the beginning is looked at, so a value that contains itself, or the same
    part many times, is no problem.
    """
    return _cut(_repr(value, _LEVELS_SHOWN), _SHOWN)


def _repr(value: object, levels: int) -> str:
    if isinstance(value, str | bytes | bytearray):
        return repr(value[: _SHOWN + 1])
    if isinstance(value, int) and value.bit_length() > _DIGITS_SHOWN_BITS:
        return f"an integer of {value.bit_length()} bits"
    if isinstance(value, Mapping):
        pairs = islice(value.items(), _ITEMS_SHOWN) if levels else ()
        parts = [f"{_repr(key, 0)}: {_repr(each, levels - 1)}" for key, each in pairs]
        return f"{{{_items(parts, len(value))}}}"
    if isinstance(value, list | tuple | AbstractSet):
        items: Iterable[object] = islice(value, _ITEMS_SHOWN) if levels else ()
        listed = _items([_repr(each, levels - 1) for each in items], len(value))
        return f"[{listed}]" if isinstance(value, list) else f"({listed})"
    return repr(value)


def _items(parts: list[str], count: int) -> str:
    return ", ".join([*parts, "…"] if len(parts) < count else parts)


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"


class WenmaiError(Exception):
    """Base of every error that Wenmai raises on purpose."""

    def name_setting(self, setting: str) -> None:
        """Let the message begin with the setting whose value led to this error."""
        self.args = (f"{setting}: {self}",)


class InvalidInput(WenmaiError):
    """A value that is not allowed.

    Attributes:
        field: the name of the offending field, dotted for nested ones; at most 200 characters.
        allowed: what would have been accepted, in words; at most 500 characters.
    """

    def __init__(self, field: str, value: object, allowed: str) -> None:
        self.field = _cut(field, _FIELD_SHOWN)
        self.allowed = _cut(allowed, _ALLOWED_SHOWN)
        super().__init__(f"{self.field}: {shown(value)} is not {self.allowed}")


class ConfigError(InvalidInput):
    """A setting that is not allowed; ``origin`` is where it was read from."""

    def __init__(self, key: str, value: object, allowed: str, *, origin: str) -> None:
        super().__init__(key, value, allowed)
        self.origin = origin
        self.args = (f"{self.args[0]} (from {origin})",)


class NotFound(WenmaiError):
    """Nothing of that name is visible to the caller; it may not exist or may be somebody else's."""

    what = "resource"

    def __init__(self, key: str) -> None:
        self.key = key
        super().__init__(f"no such {self.what}: {key}")


class SessionNotFound(NotFound):
    """No session of that id is visible to the caller."""

    what = "session"


class SessionExpired(NotFound):
    """The session is past its lifetime and is not continued."""

    what = "live session"


class PersonaNotFound(NotFound):
    """No persona of that id is registered for the tenant and site."""

    what = "persona"


class TraceNotFound(NotFound):
    """No trace of that id is visible to the caller."""

    what = "trace"


class Conflict(WenmaiError):
    """The thing changed under the caller, or is busy."""


class VersionConflict(Conflict):
    """The stored version is not the expected one (0 stands for absent)."""

    def __init__(self, kind: str, key: str, *, expected: int) -> None:
        self.kind = kind
        self.key = key
        self.expected = expected
        state = "absent" if expected == 0 else f"at version {expected}"
        super().__init__(f"{kind} {key} is no longer {state}")


class ThreadBusy(Conflict):
    """Another turn of the thread is running."""

    def __init__(self, session_id: str, npc_id: str) -> None:
        self.session_id = session_id
        self.npc_id = npc_id
        super().__init__(f"a turn of {session_id} with {npc_id} is still running")


class IdempotencyMismatch(Conflict):
    """The Idempotency-Key was used before, with another request."""

    def __init__(self, key: str) -> None:
        self.key = key
        super().__init__(f"Idempotency-Key {key} was used before with a different request")


class StoreError(WenmaiError):
    """The store did not do what was asked; nothing is half-written."""


class StoreUnavailable(StoreError):
    """The store cannot be reached or refuses writes.

    Attributes:
        store: the backend's name, as in ``degraded``.
        retry_after: seconds after which a retry makes sense.
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


class UnsupportedUrl(StoreError):
    """No backend of that scheme."""

    def __init__(self, url: str, known: list[str]) -> None:
        super().__init__(f"no store for {mask_url(url)!r}; known schemes: {', '.join(known)}")


class ServiceStopping(WenmaiError):
    """The process is about to end and gave the request up; worth a retry, with the same Idempotency-Key.

    Attributes:
        retry_after: seconds after which a retry makes sense.
    """

    retry_after = 1

    def __init__(self) -> None:
        super().__init__("the service is stopping, and the turn could not be finished before")


class Overloaded(WenmaiError):
    """As many turns run and wait already as the process, or the thread, allows.

    Attributes:
        retry_after: seconds after which a retry makes sense.
    """

    retry_after = 2

    def __init__(self, where: str) -> None:
        super().__init__(f"too many turns are running and waiting in this {where}")


class BudgetExhausted(WenmaiError):
    """A hard budget is used up; ``budget`` is its name: ``session``, ``user_day`` or ``tenant_day``."""

    def __init__(self, budget: str) -> None:
        self.budget = budget
        super().__init__(f"the budget {budget} is used up, so no model is called")


class MissingExtra(WenmaiError):
    """A package is needed that an extra installs, or that none of ours brings: then ``extra`` is empty."""

    def __init__(self, package: str, extra: str = "") -> None:
        self.extra = extra
        wanted = f"'wenmai[{extra}]'" if extra else package
        super().__init__(f"{package} is not installed; pip install {wanted}")


class ModelError(WenmaiError):
    """The model failed or did not answer in time.

    ``retryable`` says whether another try may help, ``retry_after`` after how many seconds, if the provider said so.
    """

    def __init__(self, model: str, reason: str, *, retryable: bool = False, retry_after: float | None = None) -> None:
        self.model = model
        self.retryable = retryable
        self.retry_after = retry_after
        super().__init__(f"{model}: {reason}")
