"""Signing in through an OpenID provider: authorization code with PKCE, and who its token says that it is."""

from gateway.sessions.oidc.service import OidcService
from gateway.sessions.oidc.types import ProviderConfig

__all__ = ["OidcService", "ProviderConfig"]
