"""(tenant, served name) → route → pool → the order in which its replicas are tried.

Knows names, loads and breakers; not money, not HTTP.
"""

from gateway.routing.catalogue import Catalogue
from gateway.routing.replicas import LiveReplica, Replicas
from gateway.routing.target import Target

__all__ = ["Catalogue", "LiveReplica", "Replicas", "Target"]
