"""What an error of the database means: who may try again, and whether anything has taken place.

Read off the server's SQLSTATE where it gave one, else off what the driver noticed. Everybody gets these names from
`gateway.db`. It does not know connections.
"""

import asyncpg  # type: ignore[import-untyped]  # it comes without types
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout

__all__ = [
    "DATABASE_ERRORS",
    "is_busy",
    "is_serialization_failure",
    "is_unavailable",
    "reason",
    "was_refused",
]

# Connections, resources (disk, memory, connections), and the system under the server.
_UNAVAILABLE_CLASSES = ("08", "53", "58")
# A lock or a statement that took too long.
_BUSY_STATES = frozenset({"55P03", "57014"})
# Shutdown, crash, not yet accepting; a session that we left idle for too long; read-only after a failover.
_UNAVAILABLE_STATES = frozenset({"57P01", "57P02", "57P03", "25P03", "25006"}) | _BUSY_STATES
_SERIALIZATION_STATES = frozenset({"40001", "40P01"})

DATABASE_ERRORS = (
    SQLAlchemyError,
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    OSError,
    TimeoutError,
)
"""What a transaction may raise. `is_unavailable` and `is_serialization_failure` tell which kind it was."""


def is_serialization_failure(error: BaseException) -> bool:
    """A deadlock or a serialisation failure: the same transaction may succeed if it is run again."""
    return _sqlstate(error) in _SERIALIZATION_STATES


def is_busy(error: BaseException) -> bool:
    """The server is there and answered that somebody else held for too long what the statement needs."""
    return _sqlstate(error) in _BUSY_STATES


def was_refused(error: BaseException) -> bool:
    """The server itself said no and goes on: the statement, or the transaction that was to be committed, has not taken
    place. Of a session that it ended, or that was lost, nobody knows."""
    origin = error.orig.__cause__ if isinstance(error, DBAPIError) and error.orig is not None else error
    return getattr(origin, "severity_en", None) == "ERROR"


def is_unavailable(error: BaseException) -> bool:
    """The server is away, going away, full or too busy: nothing is wrong with what was asked of it."""
    if isinstance(error, OSError | TimeoutError | PoolTimeout):
        return True
    state = _sqlstate(error)
    if state is not None:
        return state.startswith(_UNAVAILABLE_CLASSES) or state in _UNAVAILABLE_STATES
    if isinstance(error, asyncpg.InterfaceError):
        return not isinstance(error, ValueError)  # which would be about what was asked
    if not isinstance(error, DBAPIError):
        return False
    return error.connection_invalidated or isinstance(error, InterfaceError | OperationalError)


def reason(error: BaseException) -> str:
    """What the server or the driver said, without what SQLAlchemy writes around it. Of an error that says nothing, such
    as a timeout, what kind it is and what led to it."""
    if said := str(error.orig if isinstance(error, DBAPIError) else error):
        return said
    kind = type(error).__name__
    return kind if error.__cause__ is None else f"{kind}: {reason(error.__cause__)}"


def _sqlstate(error: BaseException) -> str | None:
    state = getattr(error.orig if isinstance(error, DBAPIError) else error, "sqlstate", None)
    return str(state) if state is not None else None
