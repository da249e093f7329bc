"""Every source has a sentence for people."""

from __future__ import annotations

from gateway.alerts.kinds import KINDS
from gateway.alerts.sentences import sentence_of
from gateway.alerts.sources.burn import burn_signals
from gateway.alerts.sources.others import (
    ExpiringKey,
    FailedExport,
    FailingEndpoint,
    drift_signals,
    endpoint_signals,
    export_signals,
    key_signals,
)
from gateway.alerts.sources.pools import (
    down_signals,
    flapping_signals,
    kv_signals,
    latency_signals,
    preemption_signals,
    queue_signals,
)
from tests.gateway.alerts.sources.test_pools import NOW, SERVING, health, samples
from tests.gateway.slo.test_burn import state


def test_every_source_has_a_sentence_of_the_figures_that_it_gives() -> None:
    some = samples(lambda age: 55, lambda age: 0.97, lambda age: 300 - age)
    key = ExpiringKey("key_a", "proj_a", "ci", NOW.replace(year=2025), NOW.replace(day=22))
    signals = {
        "slo.burn_rate": burn_signals([state(w1h=(20, 1_000), w5m=(20, 1_000), w30d=(5, 10_000))]),
        "pool.queue_high": queue_signals(some, SERVING, NOW),
        "pool.kv_high": kv_signals(some, SERVING, NOW),
        "pool.preemptions_high": preemption_signals(some, SERVING, NOW),
        "pool.latency_high": latency_signals({"pool_a": {45_000_000: 30}}, SERVING),
        "replica.down": down_signals(health("failed")),
        "replica.flapping": flapping_signals(health("failed", 3)),
        "ledger.drift": drift_signals({"rollups": 3}) or [],
        "export.failed": export_signals(
            [FailedExport("export_1", "csv", "2026-10-01", "2026-11-01", None, "full")]
        ),
        "key.expiring": key_signals([key], NOW),
        "webhook.failing": endpoint_signals([FailingEndpoint("hook_1", None, "pager", None, 4)]),
    }
    assert set(signals) == set(KINDS)
    said = {source: sentence_of(source, found[0].values, is_over=False) for source, found in signals.items()}
    assert (
        said["slo.burn_rate"]
        == "Error budget for the availability of m is burning 20.0 times too fast, 50% left"
    )
    assert said["pool.queue_high"] == "Pool a: 55.0 requests per replica are waiting"
    assert all(len(sentence) < 150 and not sentence.endswith(".") for sentence in said.values())
    assert sentence_of("replica.down", signals["replica.down"][0].values, is_over=True).startswith(
        "Over: Replica"
    )
