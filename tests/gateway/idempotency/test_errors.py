"""What a used key is answered with: who shall retry is told so."""

from gateway.idempotency.errors import KeyNotUsable, KeyReused, StillInFlight


def test_statuses_and_hints() -> None:
    assert (KeyReused().status, KeyReused().retryable) == (400, False)
    assert KeyNotUsable(255).status == 400
    waiting = StillInFlight()
    assert (waiting.status, waiting.retryable) == (409, True)
    assert waiting.response_headers()["retry-after"] == "1"
    assert "x-should-retry" not in waiting.response_headers()
