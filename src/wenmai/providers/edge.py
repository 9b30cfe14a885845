"""The one place where whatever a provider's client raises becomes a :class:`~wenmai.errors.ModelError`.

LangChain's providers share no exception base class: OpenAI, Anthropic, gRPC, boto and plain HTTP clients each
have their own tree, and none of them is a dependency of ours. So an error is judged by what it looks like: an
HTTP status, or that it has none.
"""

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType

from wenmai.errors import InvalidInput, MissingExtra, ModelError, WenmaiError

_log = logging.getLogger(__name__)

_TRANSIENT_STATUS = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
_LINE_LENGTH = 200
_KEY = re.compile(r"(?i:bearer\s+\S+)|\b(?:sk|pk|rk|key)-[\w-]{6,}|(?=[\w-]*\d)(?=[\w-]*[A-Za-z])[\w-]{20,}")


def is_transient(problem: BaseException) -> bool:
    """Whether the same call may succeed a moment later.

    An HTTP status decides if the error or one of its causes carries one. Without one the connection failed, or what
    came over it was no answer.
    """
    status = _status_of(problem)
    return status is None or status in _TRANSIENT_STATUS


def describe(problem: BaseException) -> str:
    """The error as one line of at most 200 characters, beginning with its class, without what looks like a key."""
    line = _KEY.sub("***", f"{type(problem).__name__}: {' '.join(str(problem)[:2000].split())}".removesuffix(": "))
    return line if len(line) <= _LINE_LENGTH else line[: _LINE_LENGTH - 1] + "…"


@contextmanager
def provider_errors(name: str) -> Iterator[None]:
    """Turn any error of a call to the provider ``name`` within the block into a :class:`ModelError`.

    The error says the class and the HTTP status only, for it is stored and shown: the provider's text may hold a key
    or the prompt. The text is logged. Cancellation passes, and so do errors that are ours already.
    """
    try:
        yield
    except WenmaiError:
        raise
    except Exception as problem:
        # The broad edge: providers share no base class. Converted, never swallowed.
        _log.warning("%s failed: %s", name, describe(problem))
        status = _status_of(problem)
        reason = type(problem).__name__ + ("" if status is None else f", status {status}")
        transient = is_transient(problem)
        raise ModelError(name, reason, retryable=transient, retry_after=_retry_after(problem)) from problem


@contextmanager
def provider_settings(name: str) -> Iterator[None]:
    """Turn any error of opening the provider ``name`` into a :class:`ModelError` in the provider's words.

    They say which setting is missing, to the operator who starts the service.
    """
    try:
        yield
    except WenmaiError:
        raise
    except Exception as problem:
        raise ModelError(name, describe(problem)) from problem


def import_extra(module: str, *, package: str, extra: str) -> ModuleType:
    """Import ``module``, which ``package`` brings and the extra installs.

    Raises:
        MissingExtra: it is not installed.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as missing:
        raise MissingExtra(package, extra) from missing


def split_name(field: str, name: str) -> tuple[str, str]:
    """The provider and the model of a ``provider:model`` name.

    Raises:
        InvalidInput: the name has another form.
    """
    provider, _, model = name.partition(":")
    if not provider.strip() or not model.strip():
        raise InvalidInput(field, name, "a name like provider:model, openai:gpt-5-mini for example")
    return provider, model


@contextmanager
def provider_package(field: str, name: str, provider: str) -> Iterator[None]:
    """Say in our words what LangChain says of an unknown provider, or of one whose package is missing."""
    try:
        yield
    except ImportError as missing:
        module = getattr(missing.__cause__, "name", None) or f"langchain_{provider}"
        package = module.partition(".")[0].replace("_", "-")
        raise MissingExtra(package, "openai" if provider == "openai" else "") from missing
    except ValueError as unknown:
        if type(unknown) is not ValueError:
            raise
        raise InvalidInput(field, name, f"a name that LangChain knows: {describe(unknown)}") from unknown


def _causes(problem: BaseException) -> Iterator[BaseException]:
    link: BaseException | None = problem
    seen: set[int] = set()
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        yield link
        link = link.__cause__


def _status_of(problem: BaseException) -> int | None:
    return next((status for link in _causes(problem) if (status := _status(link)) is not None), None)


def _status(problem: BaseException) -> int | None:
    candidates = (
        getattr(problem, "status_code", None),
        getattr(problem, "code", None),
        getattr(getattr(problem, "response", None), "status_code", None),
    )
    return next((value for value in candidates if isinstance(value, int)), None)


def _retry_after(problem: BaseException) -> float | None:
    """The seconds that the provider asks to wait for, if it states a number of them."""
    for link in _causes(problem):
        headers = getattr(getattr(link, "response", None), "headers", None) or {}
        text = str(headers.get("retry-after", ""))
        if text.isascii() and text.isdigit():
            return float(text)
    return None
