"""Metrics: labels come from the registry only, and are capped."""

from gateway.obs.metrics import OTHER, Children, LabelValues, Metrics


def test_label_values_come_from_the_registry_only() -> None:
    """Duty I45: what callers call things is no label."""
    metrics = Metrics()
    metrics.labels.register("tenant", "proj_1")
    metrics.labels.register("model", "tiny")
    assert metrics.for_request("proj_1", "tiny") == {"tenant": "proj_1", "model": "tiny"}
    assert metrics.for_request("proj_1", "made-up") == {"tenant": "proj_1", "model": OTHER}


def test_cardinality_is_capped() -> None:
    labels = LabelValues(cap=3)
    for number in range(100):
        labels.register("tenant", f"proj_{number}")
    seen = {labels.safe("tenant", f"proj_{number}") for number in range(100)}
    assert seen == {"proj_0", "proj_1", "proj_2", OTHER}


def test_rendered_text_holds_what_was_counted() -> None:
    metrics = Metrics()
    metrics.limit_refusals.labels(limit="rpm", scope="tenant").inc()
    metrics.limiter_local.set(1)
    text = metrics.render().decode()
    assert 'tollway_limit_refusals_total{limit="rpm",scope="tenant"} 1.0' in text
    assert "tollway_limiter_local 1.0" in text


def test_two_processes_in_one_interpreter_do_not_share_counts() -> None:
    """Duty I45: one process is one replica with counts of its own, which whoever scrapes them adds up."""
    first, second = Metrics(), Metrics()
    first.limiter_cache_failures.inc()
    assert "tollway_limiter_cache_failures_total 0.0" in second.render().decode()


def test_children_are_their_instruments_own() -> None:
    metrics = Metrics()
    children = Children(metrics.requests)
    for _ in range(2):
        children["t", "m", "models", 200].inc()
    labels = {"tenant": "t", "model": "m", "endpoint": "models", "code": "200"}
    assert metrics.registry.get_sample_value("tollway_requests_total", labels) == 2
    assert len(children) == 1
