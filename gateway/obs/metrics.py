"""Every metric of the gateway, worker and pool, declared in this one place.

A process makes one `Metrics` and passes it on. Label values that name a tenant or a served model come only
from the registry (`LabelValues.register`, called by whoever loads tenants and routes), and at most `cap` of
each: anything else is counted under `other`, so that no caller can make series. It does not know who scrapes.
"""

from dataclasses import dataclass, field
from typing import Generic, Protocol, Self, TypeVar

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
    start_http_server,
)

from gateway.settings import ServerSettings, SettingsError

__all__ = ["CONTENT_TYPE", "OTHER", "Children", "LabelValues", "Metrics", "serve_metrics"]

OTHER = "other"
CONTENT_TYPE = "text/plain; version=1.0.0; charset=utf-8"
LABEL_VALUES_MAX = 1000

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
_SHORT_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5)
_BATCH = (1, 2, 4, 8, 16, 32, 64, 128, 256)


@dataclass
class LabelValues:
    """The values that a tenant or model label may take."""

    cap: int = LABEL_VALUES_MAX
    _known: dict[str, set[str]] = field(default_factory=dict)

    def register(self, label: str, value: str) -> None:
        known = self._known.setdefault(label, set())
        if len(known) < self.cap:
            known.add(value)

    def safe(self, label: str, value: str) -> str:
        return value if value in self._known.get(label, ()) else OTHER


class _Labelled(Protocol):
    def labels(self, *values: object) -> Self: ...


Instrument = TypeVar("Instrument", bound=_Labelled)


class Children(dict[tuple[object, ...], Instrument], Generic[Instrument]):
    """An instrument's children by their label values, in the order of its labels, made when first asked for. What every
    request counts is looked up here: by its labels that costs more than the counting."""

    def __init__(self, instrument: Instrument) -> None:
        super().__init__()
        self._instrument = instrument

    def __missing__(self, values: tuple[object, ...]) -> Instrument:
        child = self[values] = self._instrument.labels(*values)
        return child


class Metrics:
    """The instruments, as attributes. `for_request` is the only way to the per-tenant labels."""

    def __init__(self, registry: CollectorRegistry | None = None, cap: int = LABEL_VALUES_MAX) -> None:
        self.registry = registry or CollectorRegistry()
        self.labels = LabelValues(cap)
        self._declare_requests()
        self._declare_limits_and_keys()
        self._declare_ledger()
        self._declare_batches()
        self._declare_alerts()
        self._declare_upstream()
        self._declare_pool()

    def for_request(self, tenant: str, served_model: str) -> dict[str, str]:
        """The label pair of a request, made safe."""
        return {
            "tenant": self.labels.safe("tenant", tenant),
            "model": self.labels.safe("model", served_model),
        }

    def render(self) -> bytes:
        return generate_latest(self.registry)

    def _declare_requests(self) -> None:
        owner = ["tenant", "model"]
        self.requests = self._counter(
            "requests", "Requests by outcome; code is the HTTP status.", [*owner, "endpoint", "code"]
        )
        self.in_flight = self._gauge("requests_in_flight", "Requests admitted and not answered.", [])
        self.request_seconds = self._histogram(
            "request_seconds", "From the request's arrival to the last byte.", owner, _SECONDS
        )
        self.first_token_seconds = self._histogram(
            "first_token_seconds", "From the request's arrival to the first token.", owner, _SECONDS
        )
        self.idempotent_requests = self._counter(
            "idempotent_requests", "Requests with an idempotency key, by what became of them.", ["result"]
        )
        self.client_disconnects = self._counter("client_disconnects", "Callers gone before the end.", owner)
        self.unexpected_errors = self._counter(
            "unexpected_errors", "Exceptions that are our bugs, by the edge that caught them.", ["edge"]
        )

    def _declare_limits_and_keys(self) -> None:
        self.limit_refusals = self._counter(
            "limit_refusals", "Requests refused by a limit, by limit and scope.", ["limit", "scope"]
        )
        self.limiter_local = self._gauge(
            "limiter_local", "1 while limits are enforced locally because the cache is away.", []
        )
        self.limiter_cache_failures = self._counter(
            "limiter_cache_failures", "Times that the limiter lost its cache.", []
        )
        self.limiter_open_calls = self._gauge(
            "limiter_open_calls", "Calls of this process with a ticket.", []
        )
        self.limiter_replicas = self._gauge("limiter_replicas", "Gateways that share the limits.", [])
        self.limiter_lost_corrections = self._counter(
            "limiter_lost_corrections", "Corrections dropped because the cache was away for too long.", []
        )
        self.logins = self._counter(
            "console_logins", "Attempts to sign in, by what became of them.", ["result"]
        )
        self.feed_fresh = self._gauge("config_feed_fresh", "1 while the revision feed is fresh.", [])
        self.feed_revision = self._gauge("config_feed_revision", "Last configuration revision seen.", [])
        self.feed_failures = self._counter(
            "config_feed_failures", "Polls of the revision feed that failed.", []
        )
        self.key_lookups = self._counter(
            "key_lookups", "Keys looked up, by result: hit, loaded, stale, unknown, unavailable.", ["result"]
        )

    def _declare_ledger(self) -> None:
        self.ledger_operations = self._counter(
            "ledger_operations", "Reserve, settle and release by result.", ["operation", "result"]
        )
        self.ledger_batch_size = self._histogram(
            "ledger_batch_size", "Operations of one group commit.", ["operation"], _BATCH
        )
        self.ledger_commit_seconds = self._histogram(
            "ledger_commit_seconds", "One group commit.", ["operation"], _SHORT_SECONDS
        )
        self.ledger_queue = self._gauge("ledger_queue", "Operations waiting for a batch.", ["operation"])
        self.ledger_spooled = self._gauge("ledger_spooled", "Settlements in the spool.", [])
        self.refusals_spooled = self._gauge("refusals_spooled", "Records of refusals in the spool.", [])
        self.ledger_open_holds = self._gauge("ledger_open_holds", "Holds not yet settled.", [])
        self.ledger_drift_nanousd = self._gauge(
            "ledger_rollup_drift_nanousd", "Difference of the nightly recompute of closed days.", []
        )
        self.ledger_drift_tokens = self._gauge(
            "ledger_journal_drift_tokens",
            "Journalled tokens that no attempt in the ledger has, or the reverse.",
            [],
        )
        self.ledger_epoch_drift_tokens = self._gauge(
            "ledger_epoch_drift_tokens",
            "Difference of journal and billed plus unbilled, over engine epochs.",
            [],
        )
        self.ledger_event_drift_tokens = self._gauge(
            "ledger_event_drift_tokens", "Difference of events from the billed tokens of their attempts.", []
        )
        self.ledger_review_items = self._gauge(
            "ledger_review_items", "Evidence that waits for a person, by kind.", ["kind"]
        )
        self.reconciled_attempts = self._counter(
            "reconciled_attempts", "Attempts settled from a journal or an expired hold.", ["source"]
        )
        self.worker_runs = self._counter(
            "worker_runs", "Runs of a background loop by result.", ["loop", "result"]
        )
        self.export_runs = self._counter("export_runs", "Exports by format and result.", ["format", "result"])
        self.meter_events = self._counter(
            "meter_events", "Meter events sent to Stripe, by result.", ["result"]
        )
        self.outbox_rows = self._counter("outbox_rows", "Outbox rows applied, by topic.", ["topic"])

    def _declare_batches(self) -> None:
        self.batches_running = self._gauge("batches_running", "Batches that this gateway works on.", [])
        self.batch_lines = self._counter(
            "batch_lines", "Lines of batches that have ended: answered, refused, expired.", ["result"]
        )
        self.batch_runs = self._counter(
            "batch_runs", "Turns at a batch, by how they ended: done, released, lost, failed.", ["result"]
        )

    def _declare_alerts(self) -> None:
        self.alerts_fired = self._counter("alerts_fired", "Alerts that fired, by type.", ["type"])
        self.deliveries = self._counter(
            "deliveries",
            "Attempts to deliver an event: delivered, failed, given_up, postponed.",
            ["channel", "outcome"],
        )

    def _declare_upstream(self) -> None:
        self.upstream_attempts = self._counter(
            "upstream_attempts", "Attempts at a replica by outcome.", ["pool", "outcome"]
        )
        self.upstream_retries = self._counter("upstream_retries", "Second and third attempts.", ["pool"])
        self.continued_streams = self._counter(
            "continued_streams", "Times that a replica was asked to go on with another's stream.", ["pool"]
        )
        self.breaker_open = self._gauge("breaker_open", "1 while a replica's breaker is open.", ["replica"])
        self.replica_running = self._gauge("replica_running", "Requests a replica runs.", ["replica"])
        self.replica_waiting = self._gauge("replica_waiting", "Requests a replica queues.", ["replica"])
        self.replica_kv_usage = self._gauge("replica_kv_usage", "Share of KV blocks in use.", ["replica"])

    def _declare_pool(self) -> None:
        self.pool_replicas = self._gauge("pool_replicas", "Replicas by state.", ["pool", "state"])
        self.replica_starts = self._counter("replica_starts", "Replica starts by reason.", ["pool", "reason"])

    def _counter(self, name: str, text: str, labels: list[str]) -> Counter:
        return Counter(f"tollway_{name}", text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str, labels: list[str]) -> Gauge:
        return Gauge(f"tollway_{name}", text, labels, registry=self.registry)

    def _histogram(self, name: str, text: str, labels: list[str], buckets: tuple[float, ...]) -> Histogram:
        return Histogram(f"tollway_{name}", text, labels, buckets=buckets, registry=self.registry)


def serve_metrics(metrics: Metrics, server: ServerSettings) -> None:
    """On a port of their own, when one is set."""
    if server.metrics_port is None:
        return
    try:
        start_http_server(server.metrics_port, addr=server.host, registry=metrics.registry)
    except OSError as error:
        raise SettingsError(f"TOLLWAY_SERVER__METRICS_PORT {server.metrics_port}: {error.strerror}") from None
