"""Who may call: tenants (projects), service accounts, keys, and the feed that tells of changes."""

from gateway.tenancy.directory import KeyDirectory
from gateway.tenancy.keys import Peppers
from gateway.tenancy.principal import AdminPrincipal, LimitSet, Principal, ScopedLimits
from gateway.tenancy.revision import RevisionFeed
from gateway.tenancy.service import IssuedKey, KeyOptions, TenancyService, default_limits

__all__ = [
    "AdminPrincipal",
    "IssuedKey",
    "KeyDirectory",
    "KeyOptions",
    "LimitSet",
    "Peppers",
    "Principal",
    "RevisionFeed",
    "ScopedLimits",
    "TenancyService",
    "default_limits",
]
