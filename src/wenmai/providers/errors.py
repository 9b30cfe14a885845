"""Converts the errors of providers' clients to :class:`~wenmai.errors.ModelError`.

LangChain's providers share no exception base class: OpenAI, Anthropic, gRPC, boto and plain HTTP clients each have
their own tree, and none of them is a dependency of ours. So errors are classified by their HTTP status, or the lack
of one.
"""

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

from wenmai.errors import InvalidInput, MissingExtra, ModelError, WenmaiError

_log = logging.getLogger(__name__)

_TRANSIENT_STATUS = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
_OF_ALL_CALLS = frozenset({401, 402, 403, 404})
"""The API key is wrong or has no right, nothing is left to pay with, or there is no such model."""
_LINE_LENGTH = 200
_KEY = re.compile(r"(?i:bearer\s+\S+)|\b(?:sk|pk|rk|key)-[\w-]{6,}|(?=[\w-]*\d)(?=[\w-]*[A-Za-z])[\w-]{20,}")


def is_transient(problem: BaseException) -> bool:
    """Whether a retry of the same call may succeed.

    The HTTP status of the error or one of its causes decides. Without a status the connection failed, or the response
    was invalid: transient.
    """
    status = _status_of(problem)
    return status is None or status in _TRANSIENT_STATUS


def describe(problem: BaseException) -> str:
    """The error as one line of at most 200 characters: its class and message, with likely API keys masked."""
    line = _KEY.sub("***", f"{type(problem).__name__}: {' '.join(str(problem)[:2000].split())}".removesuffix(": "))
    return line if len(line) <= _LINE_LENGTH else line[: _LINE_LENGTH - 1] + "…"


@contextmanager
def provider_errors(name: str) -> Iterator[None]:
    """Convert errors of a call to the provider ``name`` within the block to :class:`ModelError`.

    The error has only the class and the HTTP status, because it is stored and shown, and the provider's text may
    contain an API key or the prompt. That text is logged. Cancellation and our own errors pass unchanged.
    """
    try:
        yield
    except WenmaiError:
        raise
    except Exception as problem:
        # Broad, because providers share no base class; converted, never swallowed.
        _log.warning("%s failed: %s", name, describe(problem))
        status = _status_of(problem)
        reason = type(problem).__name__ + ("" if status is None else f", status {status}")
        raise ModelError(
            name,
            reason,
            retryable=is_transient(problem),
            retry_after=_retry_after(problem),
            refuses_all=status in _OF_ALL_CALLS,
        ) from problem


@contextmanager
def provider_setup_errors(name: str) -> Iterator[None]:
    """Convert errors of opening the provider ``name`` to :class:`ModelError` with the provider's message.

    It names the missing setting, for the operator who starts the service.
    """
    try:
        yield
    except WenmaiError:
        raise
    except Exception as problem:
        raise ModelError(name, describe(problem)) from problem


def import_extra(module: str, *, package: str, extra: str) -> ModuleType:
    """Import ``module`` of ``package``, which the extra installs.

    Raises:
        MissingExtra: it is not installed.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as missing:
        raise MissingExtra(package, extra) from missing


def require_extra(module: str, *, package: str, extra: str) -> None:
    """Check that ``module`` of ``package`` is installed, without the time of importing it.

    Raises:
        MissingExtra: it is not installed.
    """
    if find_spec(module) is None:
        raise MissingExtra(package, extra)


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
def provider_package_errors(field: str, name: str, provider: str) -> Iterator[None]:
    """Convert LangChain's errors for an unknown provider or a missing provider package."""
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
    """The provider's ``Retry-After`` in seconds, if it is a number."""
    for link in _causes(problem):
        headers = getattr(getattr(link, "response", None), "headers", None) or {}
        text = str(headers.get("retry-after", ""))
        if text.isascii() and text.isdigit():
            return float(text)
    return None
