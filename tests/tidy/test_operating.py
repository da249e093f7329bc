"""The operator's page knows every setting, metric and alert: its tables are written from the code."""

from scripts import api_reference
from scripts.operating import PAGE, render


def test_operating_is_complete() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert "`TOLLWAY_SERVER__METRICS_PORT` |" in page
    assert "`tollway_requests_total` | counter |" in page
    assert "[TollwayLedgerDrift](runbooks/TollwayLedgerDrift.md) | page |" in page
    assert page == render(page), "run `python -m scripts.operating` and commit docs/operating.md"


def test_the_api_reference_has_every_route() -> None:
    page = api_reference.PAGE.read_text(encoding="utf-8")
    assert "| `POST /v1/chat/completions` |" in page
    assert page == api_reference.render(), (
        "run `python -m scripts.api_reference` and commit docs/api-reference.md"
    )
