"""HTTP clients of providers: no redirects, limited response size.

A redirect could send the prompt to an arbitrary server.
"""

from contextlib import AsyncExitStack
from typing import Any

from wenmai.providers.errors import import_extra
from wenmai.providers.response_limits import limit_response

_WITH_HTTP_CLIENT = frozenset({"openai", "azure_openai"})
"""Providers with LangChain classes that accept an HTTP client."""


def bounded_client(provider: str, connections: AsyncExitStack) -> dict[str, Any]:
    """Options for the provider's LangChain classes; ``connections`` closes the client.

    Raises:
        MissingExtra: the provider's package is not installed.
    """
    if provider not in _WITH_HTTP_CLIENT:
        return {}
    openai = import_extra("openai", package="langchain-openai", extra="openai")
    client = openai.DefaultAsyncHttpxClient(
        follow_redirects=False, headers={"Accept-Encoding": "identity"}, event_hooks={"response": [limit_response]}
    )
    connections.push_async_callback(client.aclose)
    return {"http_async_client": client}
