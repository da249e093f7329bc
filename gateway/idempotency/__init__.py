"""`Idempotency-Key`: a request that a tenant sends again under its key is answered with the stored result."""

from gateway.idempotency.service import Claim, Idempotency, StoredAnswer

__all__ = ["Claim", "Idempotency", "StoredAnswer"]
