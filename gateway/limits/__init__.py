"""Requests, tokens and concurrency per tenant, key and served model: pure policy and one script."""

from gateway.limits.estimate import TokenEstimator
from gateway.limits.limiter import Limiter, Ticket
from gateway.limits.policy import LimitRequest, SizeCaps, size_caps

__all__ = ["LimitRequest", "Limiter", "SizeCaps", "Ticket", "TokenEstimator", "size_caps"]
