"""What a caller learns of a refusal."""

from gateway.ledger.errors import BudgetExceeded, LedgerUnavailable


def test_budgets_answer_in_openais_words() -> None:
    codes = {scope: BudgetExceeded(scope).code for scope in ("organization", "tenant", "key")}
    assert codes == {
        "organization": "organization_spend_limit_exceeded",
        "tenant": "project_spend_limit_exceeded",
        "key": "insufficient_quota",
    }
    assert all(BudgetExceeded(scope).type == "insufficient_quota" for scope in codes)


def test_an_outage_is_503_with_a_time_to_come_back() -> None:
    error = LedgerUnavailable()
    assert (error.status, error.code) == (503, "server_is_overloaded")
    assert error.response_headers()["retry-after"] == "1"
