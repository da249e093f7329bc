"""The database: engines, sessions, roles and the naming of constraints.

The only module that knows how to connect to Postgres. Two roles exist: the application's (no DDL, no UPDATE
or DELETE on events) and the owner's (migrations). One superuser URL may serve both, as on one machine with
an embedded server: every application connection then steps down to the application role.
It does not know any table.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, NewType, Self

import asyncpg  # type: ignore[import-untyped]  # it comes without types
from sqlalchemy import ARRAY, BigInteger, DateTime, MetaData, Text, make_url, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.dialects.postgresql.asyncpg import PGDialect_asyncpg
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.event import listens_for
from sqlalchemy.exc import ArgumentError, DisconnectionError
from sqlalchemy.ext.asyncio import (
    AsyncConnection,
    AsyncEngine,
    AsyncSession,
    async_sessionmaker,
    create_async_engine,
)
from sqlalchemy.orm import DeclarativeBase

from gateway.db_errors import (
    DATABASE_ERRORS,
    is_busy,
    is_serialization_failure,
    is_unavailable,
    reason,
    was_refused,
)
from gateway.settings import DatabaseSettings, SettingsError

__all__ = [
    "APP_ROLE",
    "DATABASE_ERRORS",
    "Backend",
    "Base",
    "Database",
    "Lane",
    "Prepared",
    "ReadSession",
    "WriteConnection",
    "WriteSession",
    "async_url",
    "backend_pid",
    "is_busy",
    "is_serialization_failure",
    "is_unavailable",
    "owner_engine",
    "reason",
    "rows_of",
    "was_refused",
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
ANSWER_MARGIN_S = 2.0
"""How much longer than the server's own limit for a statement its answer is waited for. Then the network lost it, or the
server is frozen: neither tells us, and whoever waited without a limit would wait for ever."""
LONG_STATEMENT_S = 600.0
"""What exports and the copies of whole tenants allow themselves for one statement."""
CLOSE_S = 2.0

_URL_FORM = "give postgresql://user:password@host:port/database"

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


@dataclass(frozen=True, slots=True)
class Backend:
    """The server's side of a connection that was given up before its answer came: it may still do what it was told."""

    pid: int
    lost_at_s: float
    """On the loop's clock."""


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
        patient: bool = False,
    ) -> None:
        """`name` is what `pg_stat_activity` shows; the pool never grows beyond `pool_size`. `checked`: a connection
        that died while it was idle (the server restarted) is replaced, for one round trip at each use; for those
        who would not try again. `keyed`: all its statements look rows up by their keys, so a plan that was made while
        a table was almost empty must not be one that scans it. `patient`: some of its statements raise the server's limit
        for themselves, up to LONG_STATEMENT_S."""
        options = options or DatabaseSettings()
        arguments = _connect_args(name, role, options, keyed=keyed, patient=patient)
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
        listens_for(self._engine.sync_engine, "handle_error")(_drop_unanswered)
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
        patient: bool = False,
    ) -> Self:
        """The application's database, with the timeouts and TLS of the settings."""
        url = settings.url.get_secret_value()
        return cls(
            url,
            name=name,
            pool_size=pool_size,
            options=settings,
            checked=checked,
            keyed=keyed,
            patient=patient,
        )

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

    async def has_ended(self, backend: Backend) -> bool:
        """True once the server has no such session any more, so that what it was told last has taken place by now, or
        never will. Ends it if it is there: it may be frozen, or what we sent may still be under way to it. Behind a
        pooler, whose process ids are its own, there is none to be found."""
        age_s = asyncio.get_running_loop().time() - backend.lost_at_s
        async with self.transaction() as connection:
            await connection.execute(_OWN_ROLE)
            found = await connection.execute(_END_BACKEND, {"pid": backend.pid, "age_s": age_s})
            return found.first() is None

    async def close(self) -> None:
        await self.lane.close()
        await self._engine.dispose()


# A session may be ended by those who logged in as the same role, which the application's role is not.
_OWN_ROLE = text("SET LOCAL ROLE NONE")
# A process id may be another session's by now; that one began after ours was lost.
_END_BACKEND = text(
    """
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE pid = :pid AND application_name = current_setting('application_name')
        AND backend_start < clock_timestamp() - make_interval(secs => :age_s)
    """
)


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

    @property
    def pid(self) -> int:
        """Of the server's process, once it was `ready`."""
        return int(self._connection.get_server_pid())

    async def rows(self, statement: Prepared, values: Mapping[str, Any]) -> Sequence[Any]:
        """TimeoutError if there is no answer in time, from the server or at all."""
        async with self._turn:
            try:
                rows: Sequence[Any] = await self._connection.fetch(
                    statement.sql, *[values[name] for name in statement.names]
                )
            except (TimeoutError, asyncio.CancelledError):
                self._connection.terminate()  # or the next statement would wait for this one's end
                raise
            return rows

    async def close(self) -> None:
        if self._connection is not None:
            with suppress(*DATABASE_ERRORS):  # the connection is gone all the same
                await self._connection.close(timeout=CLOSE_S)


async def rows_of(
    connection: WriteConnection | Lane, statement: Prepared, values: Mapping[str, Any]
) -> Sequence[Any]:
    """All rows, whose columns go by number."""
    if isinstance(connection, Lane):
        return await connection.rows(statement, values)
    return (await connection.execute(statement.clause, dict(values))).all()


async def backend_pid(connection: WriteConnection) -> int:
    """Of the server's process behind it. Asks nobody."""
    raw = await connection.get_raw_connection()
    driver: Any = raw.driver_connection
    return int(driver.get_server_pid())


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


def _refuse_closed(connection: Any, _record: object, _proxy: object) -> None:
    """A pooled connection that the server has ended meanwhile is replaced. What asyncpg knows costs no round trip."""
    if connection.driver_connection.is_closed():
        raise DisconnectionError


def _drop_unanswered(context: ExceptionContext) -> None:
    """A pooled connection whose answer did not come is ended here and now: SQLAlchemy would roll back on it first, and
    asyncpg would cancel the statement first, and both would wait for an answer again."""
    if isinstance(context.original_exception, TimeoutError) and context.connection is not None:
        driver: Any = context.connection.connection.driver_connection
        if driver is not None:
            driver.terminate()
            context.is_disconnect = True


def _connect_args(
    name: str, role: str | None, options: DatabaseSettings, *, keyed: bool, patient: bool
) -> Mapping[str, Any]:
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
    longest_s = max(options.statement_timeout_s, LONG_STATEMENT_S if patient else 0.0)
    return {
        "timeout": options.connect_timeout_s,
        "command_timeout": longest_s + ANSWER_MARGIN_S,
        "server_settings": settings,
        **_tls(options),
    }


def _tls(options: DatabaseSettings) -> Mapping[str, Any]:
    """A CA file asks for TLS with a verified server; without it, the URL's own `ssl` parameter decides."""
    if options.ssl_ca_file is None:
        return {}
    return {"ssl": ssl.create_default_context(cafile=str(options.ssl_ca_file))}
