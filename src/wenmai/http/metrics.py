"""Prometheus metrics; each application has its own registry.

Label values come from closed sets: route templates, known methods, statuses, policy modes, and the engine's component
names.
"""

import time
from collections.abc import Iterator, Sequence

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from wenmai.memory.derived import DerivedMemory
from wenmai.resilience.breaker import Breaker, State
from wenmai.retrieval.embedding import EmbeddingProgress
from wenmai.stores.records import TokenUsage

_METHODS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"})
_BREAKER_STATES: dict[State, int] = {"closed": 0, "half_open": 1, "open": 2}
_SECONDS = (0.002, 0.005, 0.01, 0.02, 0.04, 0.08, 0.15, 0.3, 0.6, 1.2, 2.5, 5, 10, 30, 60)


class Metrics:
    """The metrics of one application."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self._requests = Counter(
            "wenmai_http_requests",
            "Requests by route, method and status.",
            ("route", "method", "status"),
            registry=self._registry,
        )
        self._seconds = Histogram(
            "wenmai_http_request_seconds",
            "Time until the response was sent, in seconds.",
            ("route",),
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._turns = Counter(
            "wenmai_turns",
            "Turns answered, by policy mode and whether they were degraded.",
            ("policy_mode", "degraded"),
            registry=self._registry,
        )
        self._degraded = Counter(
            "wenmai_degraded",
            "Turns in which this component failed or was skipped.",
            ("part",),
            registry=self._registry,
        )

    def request(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count a request."""
        known = method if method in _METHODS else "other"
        self._requests.labels(route, known, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def turn(self, policy_mode: str, degraded: Sequence[str]) -> None:
        """Count an answered turn."""
        self._turns.labels(policy_mode, "yes" if degraded else "no").inc()
        for part in degraded:
            self._degraded.labels(part).inc()

    def render(
        self,
        breakers: Sequence[Breaker] = (),
        usage: TokenUsage = TokenUsage(),
        derived: DerivedMemory | None = None,
        evidence: EmbeddingProgress | None = None,
    ) -> bytes:
        """All metrics, with breakers, usage, derived memory and evidence as of now, in the Prometheus text format."""
        collectors: list[Collector] = [_BreakerCollector(breakers), _UsageCollector(usage)]
        if derived is not None:
            collectors.append(_DerivedCollector(derived))
        if evidence is not None:
            collectors.append(_EvidenceCollector(evidence))
        return b"".join([generate_latest(self._registry), *map(generate_latest, collectors)])


class _BreakerCollector(Collector):
    """The breakers' states at the time of the scrape."""

    def __init__(self, breakers: Sequence[Breaker]) -> None:
        self._statuses = [breaker.status for breaker in breakers]

    def collect(self) -> Iterator[Metric]:
        """See prometheus_client."""
        state = GaugeMetricFamily(
            "wenmai_breaker_state", "Circuit breaker state: 0 closed, 1 half-open, 2 open.", labels=("name",)
        )
        refused = CounterMetricFamily(
            "wenmai_breaker_refused", "Calls rejected by the circuit breaker.", labels=("name",)
        )
        for status in self._statuses:
            state.add_metric([status.name], _BREAKER_STATES[status.state])
            refused.add_metric([status.name], status.refused)
        yield state
        yield refused


class _UsageCollector(Collector):
    """Model usage at the time of the scrape, calls for titles and replays included."""

    def __init__(self, usage: TokenUsage) -> None:
        self._usage = usage

    def collect(self) -> Iterator[Metric]:
        """See prometheus_client."""
        tokens = CounterMetricFamily("wenmai_model_tokens", "Tokens of model calls.", labels=("kind",))
        tokens.add_metric(["prompt"], self._usage.prompt_tokens)
        tokens.add_metric(["completion"], self._usage.completion_tokens)
        yield tokens
        yield CounterMetricFamily(
            "wenmai_model_calls", "Model calls that returned or cost anything.", value=self._usage.calls
        )
        cost = "Cost of model calls in US dollars, for models with a configured price."
        yield CounterMetricFamily("wenmai_model_cost_usd", cost, value=self._usage.cost_usd)


class _DerivedCollector(Collector):
    """The state of derived memory at the time of the scrape."""

    def __init__(self, derived: DerivedMemory) -> None:
        self._lag = derived.lag
        self._failures = derived.failures

    def collect(self) -> Iterator[Metric]:
        """See prometheus_client."""
        threads = "Threads known to this process whose derived memory is behind their messages."
        yield GaugeMetricFamily("wenmai_derived_threads_behind", threads, value=self._lag.threads)
        oldest = "For how long the oldest of these threads has been behind, in seconds."
        yield GaugeMetricFamily("wenmai_derived_oldest_seconds", oldest, value=self._lag.oldest_seconds)
        failures = CounterMetricFamily(
            "wenmai_derived_failures", "Failed runs of derived functions; each is retried.", labels=("function",)
        )
        for name, count in self._failures.items():
            failures.add_metric([name], count)
        yield failures


class _EvidenceCollector(Collector):
    """How far the evidence is embedded at the time of the scrape."""

    def __init__(self, progress: EmbeddingProgress) -> None:
        self._progress = progress

    def collect(self) -> Iterator[Metric]:
        """See prometheus_client."""
        passages = "Indexed passages of the sites that this process has served."
        yield GaugeMetricFamily("wenmai_evidence_passages", passages, value=self._progress.passages)
        embedded = "Passages of these sites that have their vector."
        yield GaugeMetricFamily("wenmai_evidence_embedded", embedded, value=self._progress.embedded)


class RequestMetrics:
    """Counts and times every request."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()
        status = 500

        async def watching_send(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, watching_send)
        finally:
            route = getattr(scope.get("route"), "path_format", "unmatched")
            self._metrics.request(route, scope["method"], status, time.perf_counter() - started)
