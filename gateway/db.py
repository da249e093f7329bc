"""The database: engines, sessions, roles and the naming of constraints.

The only module that knows how to connect to Postgres. Two roles exist: the application's (no DDL, no UPDATE
or DELETE on events) and the owner's (migrations). One superuser URL may serve both, as on one machine with
an embedded server: every application connection then steps down to the application role.
It does not know any table.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any, ClassVar, NewType, Self

import asyncpg  # type: ignore[import-untyped]  # it comes without types
from sqlalchemy import ARRAY, BigInteger, DateTime, MetaData, Text, make_url, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.dialects.postgresql.asyncpg import PGDialect_asyncpg
from sqlalchemy.event import listens_for
from sqlalchemy.exc import (
    ArgumentError,
    DBAPIError,
    DisconnectionError,
    InterfaceError,
    OperationalError,
    SQLAlchemyError,
)
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import (
    AsyncConnection,
    AsyncEngine,
    AsyncSession,
    async_sessionmaker,
    create_async_engine,
)
from sqlalchemy.orm import DeclarativeBase

from gateway.settings import DatabaseSettings, SettingsError

__all__ = [
    "APP_ROLE",
    "DATABASE_ERRORS",
    "Base",
    "Database",
    "Lane",
    "Prepared",
    "ReadSession",
    "WriteConnection",
    "WriteSession",
    "async_url",
    "is_serialization_failure",
    "is_unavailable",
    "owner_engine",
    "reason",
    "rows_of",
]

APP_ROLE = "tollway_app"
"""Created by the first migration; the login role of the application is a member of it (or a superuser)."""

NAMING_CONVENTION = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}

LOCK_TIMEOUT_MS = 5_000
IDLE_IN_TRANSACTION_TIMEOUT_MS = 15_000

_URL_FORM = "give postgresql://user:password@host:port/database"

# Connections, resources (disk, memory, connections), and the system under the server.
_UNAVAILABLE_CLASSES = ("08", "53", "58")
# Shutdown, crash, not yet accepting; a lock or a statement that took too long; read-only after a failover.
_UNAVAILABLE_STATES = frozenset({"57P01", "57P02", "57P03", "55P03", "57014", "25006"})
_SERIALIZATION_STATES = frozenset({"40001", "40P01"})

DATABASE_ERRORS = (
    SQLAlchemyError,
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    OSError,
    TimeoutError,
)
"""What a transaction may raise. `is_unavailable` and `is_serialization_failure` tell which kind it was."""

ReadSession = NewType("ReadSession", AsyncSession)
"""A session whose transaction is READ ONLY."""
WriteSession = NewType("WriteSession", AsyncSession)
"""A session whose transaction commits when its block ends without an error."""
WriteConnection = NewType("WriteConnection", AsyncConnection)
"""A plain connection inside a transaction, for the set-at-a-time SQL of the ledger and the worker."""


class Base(DeclarativeBase):
    """What every table inherits from; `migrations/env.py` reads its metadata."""

    metadata = MetaData(naming_convention=NAMING_CONVENTION)
    type_annotation_map: ClassVar[dict[Any, Any]] = {
        str: Text(),
        int: BigInteger(),
        datetime: DateTime(timezone=True),
        list[str]: ARRAY(Text()),
        dict[str, Any]: JSONB(),
    }


class Database:
    """Owns a connection pool and opens transactions on it. `close()` it when its process ends."""

    def __init__(
        self,
        url: str,
        *,
        name: str,
        pool_size: int = 5,
        role: str | None = APP_ROLE,
        options: DatabaseSettings | None = None,
        checked: bool = False,
        keyed: bool = False,
    ) -> None:
        """`name` is what `pg_stat_activity` shows; the pool never grows beyond `pool_size`. `checked`: a connection
        that died while it was idle (the server restarted) is replaced, for one round trip at each use; for those
        who would not try again. `keyed`: all its statements look rows up by their keys, so a plan that was made while
        a table was almost empty must not be one that scans it."""
        options = options or DatabaseSettings()
        arguments = _connect_args(name, role, options, keyed)
        self.lane = Lane(async_url(url), arguments)
        self._engine = create_async_engine(
            async_url(url),
            pool_size=pool_size,
            max_overflow=0,
            pool_timeout=options.connect_timeout_s,
            pool_pre_ping=checked,
            connect_args=arguments,
            hide_parameters=True,  # an error's text goes to the logs; values that callers sent do not
        )
        listens_for(self._engine.sync_engine, "checkout")(_refuse_closed)
        self._at_once = self._engine.execution_options(isolation_level="AUTOCOMMIT")
        self._sessions = async_sessionmaker(self._engine, expire_on_commit=False)
        self._readers = async_sessionmaker(
            self._engine.execution_options(postgresql_readonly=True), expire_on_commit=False
        )

    @classmethod
    def of(
        cls,
        settings: DatabaseSettings,
        *,
        name: str,
        pool_size: int,
        checked: bool = False,
        keyed: bool = False,
    ) -> Self:
        """The application's database, with the timeouts and TLS of the settings."""
        url = settings.url.get_secret_value()
        return cls(url, name=name, pool_size=pool_size, options=settings, checked=checked, keyed=keyed)

    @asynccontextmanager
    async def read(self) -> AsyncIterator[ReadSession]:
        async with self._readers() as session, session.begin():
            yield ReadSession(session)

    @asynccontextmanager
    async def write(self) -> AsyncIterator[WriteSession]:
        async with self._sessions() as session, session.begin():
            yield WriteSession(session)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[WriteConnection]:
        async with self._engine.begin() as connection:
            yield WriteConnection(connection)

    @asynccontextmanager
    async def statement(self) -> AsyncIterator[WriteConnection]:
        """Each statement on it is a transaction of its own: one round trip, and its locks are held for no other."""
        async with self._at_once.connect() as connection:
            yield WriteConnection(connection)

    async def close(self) -> None:
        await self.lane.close()
        await self._engine.dispose()


class Prepared:
    """A statement with named parameters that runs on SQLAlchemy's connections and on a `Lane` alike."""

    def __init__(self, sql: str) -> None:
        self.clause = text(sql)
        compiled = self.clause.compile(dialect=PGDialect_asyncpg())  # type: ignore[no-untyped-call]  # theirs
        self.sql = compiled.string
        self.names: tuple[str, ...] = tuple(getattr(compiled, "positiontup", None) or ())


class Lane:
    """A connection of its own, without SQLAlchemy in between, for the few statements that every request passes. Each
    is a transaction of its own; they run one at a time. Connects when it is first used, and again when it was lost."""

    def __init__(self, url: str, arguments: Mapping[str, Any]) -> None:
        _, where = PGDialect_asyncpg().create_connect_args(make_url(url))  # type: ignore[no-untyped-call]  # theirs
        self._arguments = {**where, **arguments}
        self._connection: Any = None
        self._turn = asyncio.Lock()

    async def ready(self) -> None:
        """Connected, as far as is known without asking. Raises if the server is away."""
        async with self._turn:
            if self._connection is None or self._connection.is_closed():
                self._connection = await asyncpg.connect(**self._arguments)

    async def rows(self, statement: Prepared, values: Mapping[str, Any]) -> Sequence[Any]:
        async with self._turn:
            rows: Sequence[Any] = await self._connection.fetch(
                statement.sql, *[values[name] for name in statement.names]
            )
            return rows

    async def close(self) -> None:
        if self._connection is not None:
            await self._connection.close()


async def rows_of(
    connection: WriteConnection | Lane, statement: Prepared, values: Mapping[str, Any]
) -> Sequence[Any]:
    """All rows, whose columns go by number."""
    if isinstance(connection, Lane):
        return await connection.rows(statement, values)
    return (await connection.execute(statement.clause, dict(values))).all()


def owner_engine(url: str, options: DatabaseSettings | None = None) -> AsyncEngine:
    """An engine for migrations: the owner's role, no statement timeout, never pooled beyond one."""
    options = options or DatabaseSettings()
    settings = {"application_name": "tollway-migrate", "timezone": "UTC"}
    return create_async_engine(
        async_url(url),
        pool_size=1,
        max_overflow=0,
        connect_args={"timeout": options.connect_timeout_s, "server_settings": settings, **_tls(options)},
    )


def async_url(url: str) -> str:
    """`postgres://…` and `postgresql://…` mean asyncpg here. Raises SettingsError for anything else."""
    try:
        parsed = make_url(url.replace("postgres://", "postgresql://", 1))
    except ArgumentError:
        raise SettingsError(f"DATABASE_URL is not an address; {_URL_FORM}") from None
    if not parsed.drivername.startswith("postgresql"):
        raise SettingsError(f"DATABASE_URL is for {parsed.drivername}; {_URL_FORM}")
    return parsed.set(drivername="postgresql+asyncpg").render_as_string(hide_password=False)


def is_serialization_failure(error: BaseException) -> bool:
    """A deadlock or a serialisation failure: the same transaction may succeed if it is run again."""
    return _sqlstate(error) in _SERIALIZATION_STATES


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


def _refuse_closed(connection: Any, _record: object, _proxy: object) -> None:
    """A pooled connection that the server has ended meanwhile is replaced. What asyncpg knows costs no round trip."""
    if connection.driver_connection.is_closed():
        raise DisconnectionError


def _sqlstate(error: BaseException) -> str | None:
    state = getattr(error.orig if isinstance(error, DBAPIError) else error, "sqlstate", None)
    return str(state) if state is not None else None


def _connect_args(name: str, role: str | None, options: DatabaseSettings, keyed: bool) -> Mapping[str, Any]:
    settings = {
        "application_name": name,
        "timezone": "UTC",
        "statement_timeout": str(int(options.statement_timeout_s * 1000)),
        "lock_timeout": str(LOCK_TIMEOUT_MS),
        "idle_in_transaction_session_timeout": str(IDLE_IN_TRANSACTION_TIMEOUT_MS),
        # The planner's just-in-time compiler costs more than the short statements of the request path.
        "jit": "off",
    }
    if role is not None:
        settings["role"] = role
    if keyed:
        settings["enable_seqscan"] = "off"
    return {"timeout": options.connect_timeout_s, "server_settings": settings, **_tls(options)}


def _tls(options: DatabaseSettings) -> Mapping[str, Any]:
    """A CA file asks for TLS with a verified server; without it, the URL's own `ssl` parameter decides."""
    if options.ssl_ca_file is None:
        return {}
    return {"ssl": ssl.create_default_context(cafile=str(options.ssl_ca_file))}
