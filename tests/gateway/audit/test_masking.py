"""What lets anybody in is taken out of what the log keeps, wherever it stands."""

from __future__ import annotations

from gateway.audit.masking import without_secrets

KEY = "tw-abcdefgh-" + "S" * 43


def test_secrets_are_masked_and_nothing_else() -> None:
    change = {
        "name": f"pasted {KEY} here",
        "max_prompt_tokens": 5,
        "key_id": "key_1",
        "masked": "tw-abcdefgh-***SSSS",
        "spec": {
            "flags": {"hf-token": "hf_123", "api-key": "abc", "max-num-seqs": 4, "token": None},
            "urls": ["http://user:pass@host:80/v1", "http://host/a@b"],
        },
    }
    assert without_secrets(change) == {
        "name": "pasted tw-abcdefgh-*** here",
        "max_prompt_tokens": 5,
        "key_id": "key_1",
        "masked": "tw-abcdefgh-***SSSS",
        "spec": {
            "flags": {"hf-token": "***", "api-key": "***", "max-num-seqs": 4, "token": None},
            "urls": ["http://***@host:80/v1", "http://host/a@b"],
        },
    }
