"""The headers that the console's pages are sent with: what a browser may load, run and tell others about."""

from __future__ import annotations

__all__ = ["CONSOLE_HEADERS"]

_POLICY = (
    "default-src 'none'",
    "script-src 'self'",
    # Components write styles while they run; a style cannot run anything.
    "style-src 'self' 'unsafe-inline'",
    "img-src 'self' data:",
    "font-src 'self'",
    "connect-src 'self'",
    "manifest-src 'self'",
    "base-uri 'none'",
    "form-action 'self'",
    "frame-ancestors 'none'",
)
CONSOLE_HEADERS = {
    "content-security-policy": "; ".join(_POLICY),
    "x-frame-options": "DENY",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
