"""What the service has done, for Prometheus; a registry of its own per application.

Labels come from closed sets: routes by their template, known methods, statuses, policy modes, and the
engine's own words for its parts.
"""

import time

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector, generate_latest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from wenmai.chat.turn import TurnAnswer

_METHODS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"})
_SECONDS = (0.002, 0.005, 0.01, 0.02, 0.04, 0.08, 0.15, 0.3, 0.6, 1.2, 2.5, 5, 10, 30, 60)


class Metrics:
    """The counters of one application."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self._requests = Counter(
            "wenmai_http_requests",
            "Requests answered, by route, method and status.",
            ("route", "method", "status"),
            registry=self._registry,
        )
        self._seconds = Histogram(
            "wenmai_http_request_seconds",
            "Time to the end of the answer.",
            ("route",),
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._turns = Counter(
            "wenmai_turns",
            "Turns answered, by policy mode, and whether something was degraded.",
            ("policy_mode", "degraded"),
            registry=self._registry,
        )
        self._degraded = Counter(
            "wenmai_degraded", "Turns in which this part failed.", ("part",), registry=self._registry
        )
        self._tokens = Counter("wenmai_model_tokens", "Tokens of model calls.", ("kind",), registry=self._registry)

    def request(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count a request."""
        known = method if method in _METHODS else "other"
        self._requests.labels(route, known, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def turn(self, answer: TurnAnswer) -> None:
        """Count an answered turn."""
        self._turns.labels(answer.policy_mode, "yes" if answer.degraded else "no").inc()
        for part in answer.degraded:
            self._degraded.labels(part).inc()

    def tokens(self, prompt: int, completion: int) -> None:
        """Count what a model was sent and what it wrote."""
        self._tokens.labels("prompt").inc(prompt)
        self._tokens.labels("completion").inc(completion)

    def text(self) -> bytes:
        """All figures in Prometheus's text format."""
        return generate_latest(self._registry)


class Measured:
    """Counts and times every request."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        status = 500

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, watched)
        finally:
            route = getattr(scope.get("route"), "path_format", "unmatched")
            self._metrics.request(route, scope["method"], status, time.perf_counter() - began)
