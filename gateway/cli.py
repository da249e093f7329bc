"""`tollway …`: argument parsing and nothing else.

Every command imports what it runs when it runs, so that `--help` answers at once and an engine machine needs
no gateway packages.
"""

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

if TYPE_CHECKING:
    from gateway.rotation import Secrets
    from gateway.settings import Settings

ITEM_MAX = (1 << 63) - 1
Standby = Annotated[
    bool,
    typer.Option("--standby", help="Add it behind the current one; the next call makes it the current one."),
]
KeyName = Annotated[str, typer.Argument(help="The key's id, as `secrets status` shows it.")]

app = typer.Typer(
    help="A multi-tenant LLM gateway with its own pool of inference engines.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
admin = typer.Typer(help="Administration that needs the database rather than a key.", no_args_is_help=True)
app.add_typer(admin, name="admin")
rotation = typer.Typer(help="The server's own secrets: peppers and master keys.", no_args_is_help=True)
app.add_typer(rotation, name="secrets")
data = typer.Typer(help="A tenant's data: copy it, delete it, forget a person in it.", no_args_is_help=True)
app.add_typer(data, name="data")
review = typer.Typer(help="Evidence that the ledger cannot settle by itself.", no_args_is_help=True)
app.add_typer(review, name="review")


@app.command()
def up(
    no_demo: Annotated[bool, typer.Option("--no-demo", help="No demo tenant and no demo requests.")] = False,
    exit_after_demo: Annotated[bool, typer.Option("--exit-after-demo", help="Stop when it has run.")] = False,
    data: Annotated[Path, typer.Option(help="Where data, secrets and logs are kept.")] = Path("var"),
    port: Annotated[int | None, typer.Option(help="The gateway's port; 8080 if it is free.")] = None,
    model: Annotated[str | None, typer.Option(help="Another model: a GGUF file or a checkpoint.")] = None,
) -> None:
    """Start everything on this machine and stay up until Ctrl-C."""
    from gateway.clock import SystemClock
    from gateway.local.failure import LocalError
    from gateway.local.show import Screen
    from gateway.local.up import Options
    from gateway.local.up import up as start

    options = Options(data, not no_demo, exit_after_demo, port, model)
    try:
        asyncio.run(start(options, Screen(SystemClock())))
    except LocalError as error:
        _fail(error)


@app.command()
def gateway() -> None:
    """Serve the data plane and the admin API."""
    from gateway.serving import serve_gateway

    with _one_sentence():
        serve_gateway(_configured())


@app.command()
def worker() -> None:
    """Run the background loops: rollups, sweeping, reconciliation."""
    from gateway.serving import serve_worker

    with _one_sentence():
        asyncio.run(serve_worker(_configured()))


@app.command()
def pool(
    drain_on_exit: Annotated[
        bool, typer.Option("--drain-on-exit", help="End the replicas too; by default they are adopted later.")
    ] = False,
    open_engines: Annotated[
        bool, typer.Option("--open-engines", help="Let engines answer this machine without a key.")
    ] = False,
) -> None:
    """Supervise the engine replicas of this node."""
    from gateway.serving import supervise

    with _one_sentence():
        asyncio.run(supervise(_configured(), drain_on_exit=drain_on_exit, open_engines=open_engines))


@app.command()
def migrate() -> None:
    """Bring the database's schema to this version."""
    from gateway.migrate import migrate as bring

    with _one_sentence(), _database_named():
        settings = _settings()
        url = settings.database.owner_url or settings.database.url
        typer.echo(f"schema revision {asyncio.run(bring(url.get_secret_value(), settings.database))}")


@app.command()
def export(
    format: Annotated[str, typer.Option(help="csv, jsonl, parquet, focus or stripe.")],
    month: Annotated[str | None, typer.Option(help="A whole month: 2026-11.")] = None,
    start: Annotated[str | None, typer.Option("--from", help="The first day: 2026-11-28.")] = None,
    end: Annotated[
        str | None, typer.Option("--to", help="The day after the last; one day if not given.")
    ] = None,
    project: Annotated[str | None, typer.Option(help="One project alone, by its id.")] = None,
    destination: Annotated[
        str | None, typer.Option(help="A directory or s3://bucket/prefix; the configured one if not given.")
    ] = None,
    resume: Annotated[
        bool, typer.Option(help="Take up what an earlier run left unfinished, or begin again.")
    ] = True,
) -> None:
    """Write a closed period of the ledger to files that never change."""
    from gateway.exporting import export_now
    from gateway.exports.types import ExportError, spec_from

    with _one_sentence(), _database_named():
        try:
            spec = spec_from(format, project, month=month, start=start, end=end)
            done = export_now(_settings(), spec, destination, resume=resume)
            typer.echo(asyncio.run(done))
        except ExportError as error:
            _fail(error)


@admin.command()
def bootstrap(
    name: Annotated[str, typer.Option(help="What owner and key are called in lists.")] = "owner",
    email: Annotated[str | None, typer.Option(help="The owner's address.")] = None,
    password: Annotated[
        bool, typer.Option("--password", help="Ask for a password for the console, or read it from stdin.")
    ] = False,
) -> None:
    """Make the first owner and the first admin key, once, and show the key."""
    from gateway.serving import bootstrap_admin

    if password and email is None:
        raise typer.BadParameter("people sign in with their address: give --email too")
    with _one_sentence(), _database_named():
        secret = _asked_password() if password else None
        typer.echo(asyncio.run(bootstrap_admin(_settings(), name, email, secret)))


@admin.command("set-password")
def set_password(
    who: Annotated[str, typer.Argument(help="The user's e-mail address or id.")],
    email: Annotated[str | None, typer.Option(help="Their address from now on; for who has none.")] = None,
) -> None:
    """Give a user a password for the console, asked for or read from stdin. Their sessions end."""
    from gateway.serving import set_password as put

    with _one_sentence(), _database_named():
        typer.echo(asyncio.run(put(_settings(), who, _asked_password(), email)))


@app.command()
def openapi() -> None:
    """Print the description of the whole API (OpenAPI 3)."""
    from gateway.serving import describe_api

    typer.echo(describe_api(), nl=False)


@rotation.command("status")
def secrets_status() -> None:
    """Show each pepper and master key, and how much needs it."""
    from gateway.rotation import KeyUse, run

    async def ask(secret: "Secrets") -> dict[str, list[KeyUse]]:
        return {"pepper": await secret.peppers(), "master key": await secret.master_keys()}

    with _one_sentence(), _database_named():
        for kind, uses in run(_settings(), ask).items():
            for use in uses:
                typer.echo(
                    f"{kind:<10}  {use.name:<8}  {use.in_use:>8}{'  current' if use.is_current else ''}"
                )


@rotation.command("rotate-pepper")
def rotate_pepper(standby: Standby = False) -> None:
    """Add a pepper for new keys, in TOLLWAY_SECURITY__KEY_PEPPER_FILE. Keys are stored anew when they are used."""
    from gateway.rotation import run

    with _one_sentence(), _database_named():
        typer.echo(run(_settings(), lambda secret: secret.rotate_pepper(standby=standby)))


@rotation.command("rotate-master-key")
def rotate_master_key(standby: Standby = False) -> None:
    """Add a master key, in TOLLWAY_MASTER_KEY, and seal with it what older ones have sealed."""
    from gateway.rotation import run

    with _one_sentence(), _database_named():
        typer.echo(run(_settings(), lambda secret: secret.rotate_master_key(standby=standby)))


@rotation.command("drop-pepper")
def drop_pepper(name: KeyName) -> None:
    """Take an old pepper out of its file; refused while keys that work are stored under it."""
    from gateway.rotation import run

    with _one_sentence(), _database_named():
        run(_settings(), lambda secret: secret.drop_pepper(name))


@rotation.command("drop-master-key")
def drop_master_key(name: KeyName) -> None:
    """Take an old master key out of its file, once nothing is sealed under it any more."""
    from gateway.rotation import run

    with _one_sentence(), _database_named():
        run(_settings(), lambda secret: secret.drop_master_key(name))


@data.command("copy")
def copy_data(
    project: Annotated[str, typer.Argument(help="The project's id.")],
    out: Annotated[Path, typer.Option(help="A directory that does not exist yet.")],
) -> None:
    """Write everything that is stored about a project: JSON lines per table, and a manifest."""
    from gateway.retention.commands import copy_tenant

    with _one_sentence(), _database_named():
        for table, file in asyncio.run(copy_tenant(_settings(), project, out)).items():
            typer.echo(f"{file.rows:>10}  {table}.jsonl")


@data.command("delete")
def delete_data(
    project: Annotated[str, typer.Argument(help="The project's id; it must be archived.")],
    yes: Annotated[bool, typer.Option("--yes", help="Do it without asking.")] = False,
) -> None:
    """Delete a project's keys, limits, names and people for ever; the money stays, under ids."""
    from gateway.retention.commands import delete_tenant

    if not yes:
        typer.confirm(f"Delete the data of {project} for ever?", abort=True)
    with _one_sentence(), _database_named():
        for table, rows in asyncio.run(delete_tenant(_settings(), project)).items():
            typer.echo(f"{rows:>10}  {table}")


@data.command("forget")
def forget_user(
    project: Annotated[str, typer.Argument(help="The project's id.")],
    user: Annotated[str, typer.Argument(help="The end user as the project names them, or the pseudonym.")],
) -> None:
    """Forget whom a pseudonym stands for; the money stays."""
    from gateway.retention.commands import forget

    with _one_sentence(), _database_named():
        typer.echo(f"forgotten: {asyncio.run(forget(_settings(), project, user))}")


@review.command("rebuild")
def rebuild_rollups(
    day: Annotated[datetime, typer.Argument(formats=["%Y-%m-%d"], help="A day (UTC) of an open period.")],
) -> None:
    """Make a day's sums anew from its events, after `rollup_drift` was reported."""
    from gateway.retention.commands import rebuild

    if not 1970 <= day.year < 3000:
        raise typer.BadParameter("the year must be between 1970 and 2999")
    with _one_sentence(), _database_named():
        drift = asyncio.run(rebuild(_settings(), day.date()))
        typer.echo(
            f"they were wrong by {drift.nanousd} nano-USD, {drift.tokens} tokens, {drift.requests} requests"
        )


@review.command("list")
def list_review(
    after: Annotated[int, typer.Option(help="Only items behind this one.", min=0, max=ITEM_MAX)] = 0,
) -> None:
    """Show what waits, oldest first, a hundred at a time: one JSON object per line."""
    from gateway.retention.commands import open_review

    with _one_sentence(), _database_named():
        for line in asyncio.run(open_review(_settings(), after)):
            typer.echo(line)


@review.command("resolve")
def resolve_review(
    item: Annotated[int, typer.Argument(help="The item's number.", min=0, max=ITEM_MAX)],
    how: Annotated[str, typer.Option(help="What was done about it; kept with the item.")],
) -> None:
    """Take an item off the list."""
    from gateway.retention.commands import resolve

    with _one_sentence(), _database_named():
        asyncio.run(resolve(_settings(), item, how))


def _asked_password() -> str:
    """Twice and unseen from a terminal; else the first line of stdin. Never from an argument, which others can see."""
    if sys.stdin.isatty():
        return str(typer.prompt("Password", hide_input=True, confirmation_prompt=True))
    return sys.stdin.readline().rstrip("\r\n")


def _configured() -> "Settings":
    from gateway.obs.logging import configure_logging

    settings = _settings()
    configure_logging(settings.server.log_level)
    return settings


def _settings() -> "Settings":
    from pydantic import ValidationError

    from gateway.settings import Settings, invalid_values

    try:
        return Settings()
    except ValidationError as error:
        _fail(invalid_values(error))


@contextmanager
def _one_sentence() -> Iterator[None]:
    """What whoever started the process can put right is said without a traceback."""
    from gateway.errors import GatewayError
    from gateway.migrate import SchemaMismatch
    from gateway.settings import SettingsError

    try:
        yield
    except (GatewayError, SchemaMismatch, SettingsError) as error:
        _fail(error)


@contextmanager
def _database_named() -> Iterator[None]:
    """For commands that are of no use without a database; the long-running ones wait for it."""
    from gateway.db import DATABASE_ERRORS, reason

    try:
        yield
    except DATABASE_ERRORS as error:
        _fail(f"the database (DATABASE_URL) cannot be used: {reason(error)}")


def _fail(error: object) -> NoReturn:
    typer.echo(f"error: {error}", err=True)
    raise typer.Exit(1)
