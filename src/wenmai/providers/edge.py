"""The one place where whatever a provider's client raises becomes a :class:`~wenmai.errors.ModelError`.

LangChain's providers share no exception base class: OpenAI, Anthropic, gRPC, boto and plain HTTP clients each
have their own tree, and none of them is a dependency of ours. So an error is judged by what it looks like: an
HTTP status, or a class name that says that the connection failed.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType

from wenmai.errors import InvalidInput, MissingExtra, ModelError, WenmaiError

_TRANSIENT_STATUS = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
_TRANSIENT_NAMES = frozenset(
    {
        "APIConnectionError",  # openai, anthropic
        "ClientConnectionError",  # aiohttp
        "ConnectionError",  # built in, requests, botocore
        "TimeoutError",  # built in
        "TransportError",  # httpx
    }
)
_REASON_LENGTH = 200


def is_transient(problem: BaseException) -> bool:
    """Whether the same call may succeed a moment later: no connection, too many requests, a server's failure.

    An HTTP status decides if the error or one of its causes carries one; else the names of their classes do.
    """
    chain = list(_causes(problem))
    for link in chain:
        status = _status(link)
        if status is not None:
            return status in _TRANSIENT_STATUS
    return any(base.__name__ in _TRANSIENT_NAMES for link in chain for base in type(link).__mro__)


def describe(problem: BaseException) -> str:
    """The error as one line of at most 200 characters, beginning with its class."""
    line = f"{type(problem).__name__}: {' '.join(str(problem).split())}".removesuffix(": ")
    return line if len(line) <= _REASON_LENGTH else line[: _REASON_LENGTH - 1] + "…"


@contextmanager
def provider_errors(name: str) -> Iterator[None]:
    """Turn any error of the provider ``name`` within the block into a :class:`ModelError`.

    Cancellation passes, and so do errors that are ours already.
    """
    try:
        yield
    except WenmaiError:
        raise
    except Exception as problem:
        # The broad edge: providers share no base class. Converted, never swallowed.
        raise ModelError(name, describe(problem), retryable=is_transient(problem)) from problem


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


def _status(problem: BaseException) -> int | None:
    candidates = (
        getattr(problem, "status_code", None),
        getattr(problem, "code", None),
        getattr(getattr(problem, "response", None), "status_code", None),
    )
    return next((value for value in candidates if isinstance(value, int)), None)
