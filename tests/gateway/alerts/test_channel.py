"""What a channel may say of a failed attempt."""

import pytest

from gateway.alerts.channel import NotDelivered, Undeliverable


def test_a_refusal_for_good_is_a_failed_attempt_too() -> None:
    with pytest.raises(NotDelivered, match="550 nobody") as caught:
        raise Undeliverable("550 nobody")
    assert caught.value.retry_after_s == 0.0
    assert str(NotDelivered("429", retry_after_s=7.0)) == "429"
