"""Refusals of people who sign in. None of them tells whether an account exists."""

from __future__ import annotations

import math

from gateway.errors import ClientError

__all__ = ["Forged", "LoginRefused", "SessionOver", "TooManyAttempts"]


class LoginRefused(ClientError):
    """Unknown account, no password and wrong password: one answer for all three."""

    def __init__(self) -> None:
        super().__init__("The e-mail address or the password is wrong.", status=401, code="invalid_login")


class SessionOver(ClientError):
    """`session_expired`: refreshing may help. `session_ended`: only signing in again does."""

    def __init__(self, *, is_final: bool = False) -> None:
        text = (
            "The session has ended. Please sign in again." if is_final else "The session has to be refreshed."
        )
        super().__init__(text, status=401, code="session_ended" if is_final else "session_expired")


class Forged(ClientError):
    """A change that comes with a session's cookie and not from the console's own pages."""

    def __init__(self) -> None:
        super().__init__(
            "The request does not come from the console: its Origin or the header x-tollway-console is missing or wrong.",
            status=403,
            code="cross_site_request",
        )


class TooManyAttempts(ClientError):
    def __init__(self, wait_s: float) -> None:
        super().__init__(
            f"Too many attempts to sign in. Please wait {math.ceil(wait_s)} seconds.",
            status=429,
            type="requests",
            code="rate_limit_exceeded",
            retryable=True,
            retry_after_s=wait_s,
        )
