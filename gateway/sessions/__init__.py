"""Console sessions: people who sign in with a password, and what proves them afterwards. It knows no HTTP."""

from gateway.sessions.directory import SessionDirectory
from gateway.sessions.service import SessionService
from gateway.sessions.types import Grant, Place, Standing

__all__ = ["Grant", "Place", "SessionDirectory", "SessionService", "Standing"]
