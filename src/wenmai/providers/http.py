"""HTTP clients of providers: they follow no redirect, and read answers of a bounded size only.

A redirect would carry the prompt to a server of another's choice.
"""

from contextlib import AsyncExitStack
from typing import Any

from wenmai.providers.counted import bound
from wenmai.providers.edge import import_extra

_WITH_HTTP_CLIENT = frozenset({"openai", "azure_openai"})
"""Providers whose LangChain classes take an HTTP client."""


def bounded_client(provider: str, connections: AsyncExitStack) -> dict[str, Any]:
    """Options of the provider's LangChain classes; ``connections`` closes the client.

    Raises:
        MissingExtra: the provider's package is not installed.
    """
    if provider not in _WITH_HTTP_CLIENT:
        return {}
    openai = import_extra("openai", package="langchain-openai", extra="openai")
    client = openai.DefaultAsyncHttpxClient(
        follow_redirects=False, headers={"Accept-Encoding": "identity"}, event_hooks={"response": [bound]}
    )
    connections.push_async_callback(client.aclose)
    return {"http_async_client": client}
