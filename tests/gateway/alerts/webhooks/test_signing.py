"""Signatures, verified by the libraries that receivers use."""

from __future__ import annotations

import base64
import os
from datetime import UTC, datetime, timedelta

import openai
import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from gateway.alerts.webhooks.signing import OVERLAP, Secrets, hint_of, new_secret, signed

BODY = '{"type":"batch.completed","data":{"id":"batch_é"}}'.encode()


def test_a_secret_is_32_bytes_and_its_hint_tells_little() -> None:
    secret = new_secret(os.urandom)
    assert secret.startswith("whsec_")
    assert len(base64.b64decode(secret[6:])) == 32
    assert secret != new_secret(os.urandom)
    assert hint_of("whsec_" + "A" * 39 + "BcDe=") == "whsec_***BcDe"
    assert secret not in repr(Secrets(secret))


def test_both_libraries_accept_what_is_signed() -> None:
    secret = new_secret(os.urandom)
    headers = dict(signed("delivery_1", BODY, [secret], datetime.now(UTC)))
    client = openai.OpenAI(api_key="k", webhook_secret=secret)
    client.webhooks.verify_signature(BODY, headers)
    event = client.webhooks.unwrap(BODY, headers)
    assert (event.type, event.data.id) == ("batch.completed", "batch_é")  # type: ignore[union-attr]
    assert Webhook(secret).verify(BODY, headers)["type"] == "batch.completed"
    for changed in (BODY + b" ", BODY.replace(b"completed", b"cancelled")):
        with pytest.raises(openai.InvalidWebhookSignatureError):
            client.webhooks.verify_signature(changed, headers)
        with pytest.raises(WebhookVerificationError):
            Webhook(secret).verify(changed, headers)
    with pytest.raises(openai.InvalidWebhookSignatureError):
        client.webhooks.verify_signature(BODY, {**headers, "webhook-id": "delivery_2"})


@pytest.mark.parametrize("off_s", [-3600, 3600])
def test_an_old_or_early_stamp_is_refused_so_each_attempt_needs_its_own(off_s: int) -> None:
    secret = new_secret(os.urandom)
    headers = dict(signed("delivery_1", BODY, [secret], datetime.now(UTC) + timedelta(seconds=off_s)))
    with pytest.raises(openai.InvalidWebhookSignatureError, match="too"):
        openai.OpenAI(api_key="k").webhooks.verify_signature(BODY, headers, secret=secret)


def test_rotation_with_and_without_an_overlap() -> None:
    now = datetime.now(UTC)
    first = Secrets(new_secret(os.urandom), routing_key="r" * 32)
    second = first.rotated(os.urandom, now + OVERLAP)
    assert second.active(now) == (second.current, first.current)
    assert second.active(now + OVERLAP - timedelta(seconds=1)) == (second.current, first.current)
    assert second.active(now + OVERLAP) == (second.current,), "an exact end"
    third = second.rotated(os.urandom, now + OVERLAP)
    assert third.active(now) == (third.current, second.current), "two at most"
    assert third.rotated(os.urandom, None).active(now)[1:] == (), "an immediate cut"
    assert third.routing_key == first.routing_key
    headers = dict(signed("delivery_1", BODY, second.active(now), now))
    assert headers["webhook-signature"].count("v1,") == 2
    for secret in second.active(now):
        assert Webhook(secret).verify(BODY, headers)
        openai.OpenAI(api_key="k").webhooks.verify_signature(BODY, headers, secret=secret)
