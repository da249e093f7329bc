"""Events: what happened once and is worth telling outside, written in the transaction of its cause.

`announce` is the one door. Who is told, by which channel and when, is decided later, by the worker: alerts/courier.
"""

from gateway.events.repository import announce
from gateway.events.types import EVENT_TYPES, TENANT_EVENT_TYPES, Event, EventType, Mail

__all__ = ["EVENT_TYPES", "TENANT_EVENT_TYPES", "Event", "EventType", "Mail", "announce"]
