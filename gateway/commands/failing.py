"""How every command says what went wrong: one sentence on stderr and exit status 1."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

import typer

if TYPE_CHECKING:
    from gateway.settings import Settings


def fail(error: object) -> NoReturn:
    typer.echo(f"error: {error}", err=True)
    raise typer.Exit(1)


def read_settings() -> "Settings":
    from pydantic import ValidationError

    from gateway.settings import Settings, invalid_values

    try:
        return Settings()
    except ValidationError as error:
        fail(invalid_values(error))


@contextmanager
def one_sentence() -> Iterator[None]:
    """What whoever started the process can put right is said without a traceback."""
    from gateway.errors import GatewayError
    from gateway.migrate import SchemaMismatch
    from gateway.settings import SettingsError

    try:
        yield
    except (GatewayError, SchemaMismatch, SettingsError) as error:
        fail(error)


@contextmanager
def database_named() -> Iterator[None]:
    """For commands that are of no use without a database; the long-running ones wait for it."""
    from gateway.db import DATABASE_ERRORS, reason

    try:
        yield
    except DATABASE_ERRORS as error:
        fail(f"the database (DATABASE_URL) cannot be used: {reason(error)}")
