"""(tenant, served name) → route → pool → the order in which its replicas are tried.

Knows names, loads and breakers; not money, not HTTP.
"""

from gateway.routing.catalogue import Catalogue
from gateway.routing.prompt import Prompt
from gateway.routing.replicas import LiveReplica, Replicas
from gateway.routing.target import Target
from gateway.routing.work import Work

__all__ = ["Catalogue", "LiveReplica", "Prompt", "Replicas", "Target", "Work"]
