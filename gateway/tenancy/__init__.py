"""Who may call: tenants (projects), service accounts, keys, and the feed that tells of changes."""

from gateway.tenancy.directory import KeyDirectory
from gateway.tenancy.keys import Peppers
from gateway.tenancy.principal import AdminPrincipal, LimitSet, Principal, ProjectRole, Role, ScopedLimits
from gateway.tenancy.revision import RevisionFeed
from gateway.tenancy.service import IssuedKey, KeyChange, KeyOptions, TenancyService, default_limits

__all__ = [
    "AdminPrincipal",
    "IssuedKey",
    "KeyChange",
    "KeyDirectory",
    "KeyOptions",
    "LimitSet",
    "Peppers",
    "Principal",
    "ProjectRole",
    "RevisionFeed",
    "Role",
    "ScopedLimits",
    "TenancyService",
    "default_limits",
]
