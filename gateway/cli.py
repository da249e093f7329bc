"""`tollway …`: argument parsing and nothing else.

Every command imports what it runs when it runs, so that `--help` answers at once and an engine machine needs
no gateway packages. The long-running commands are here, the others in `gateway.commands`.
"""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gateway.commands import admin, data, review, secrets
from gateway.commands.bench import bench
from gateway.commands.check import check
from gateway.commands.failing import database_named, fail, one_sentence, read_settings
from gateway.commands.plan import plan

if TYPE_CHECKING:
    from gateway.settings import Settings

app = typer.Typer(
    help="A multi-tenant LLM gateway with its own pool of inference engines.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.add_typer(admin.app, name="admin")
app.add_typer(secrets.app, name="secrets")
app.add_typer(data.app, name="data")
app.add_typer(review.app, name="review")
app.command()(plan)
app.command()(bench)
app.command()(check)


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
        fail(error)


@app.command()
def gateway() -> None:
    """Serve the data plane and the admin API."""
    from gateway.serving import serve_gateway

    with one_sentence():
        serve_gateway(_configured())


@app.command()
def worker() -> None:
    """Run the background loops: rollups, sweeping, reconciliation."""
    from gateway.serving import serve_worker

    with one_sentence():
        asyncio.run(serve_worker(_configured()))


@app.command()
def pool(
    drain_on_exit: Annotated[
        bool, typer.Option("--drain-on-exit", help="End the replicas too; by default they are adopted later.")
    ] = False,
    open_engines: Annotated[
        bool, typer.Option("--open-engines", help="Let engines answer this machine without a key.")
    ] = False,
    kubernetes: Annotated[
        Path | None,
        typer.Option(
            "--kubernetes",
            help="Run replicas in the cluster around, with what this file says of all its engines.",
        ),
    ] = None,
) -> None:
    """Supervise the engine replicas of this node, or of a cluster."""
    from gateway.serving import supervise

    with one_sentence():
        asyncio.run(
            supervise(
                _configured(),
                drain_on_exit=drain_on_exit,
                open_engines=open_engines,
                kubernetes=kubernetes,
            )
        )


@app.command()
def migrate() -> None:
    """Bring the database's schema to this version."""
    from gateway.migrate import migrate as bring

    with one_sentence(), database_named():
        settings = read_settings()
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

    with one_sentence(), database_named():
        try:
            spec = spec_from(format, project, month=month, start=start, end=end)
            done = export_now(read_settings(), spec, destination, resume=resume)
            typer.echo(asyncio.run(done))
        except ExportError as error:
            fail(error)


@app.command()
def openapi() -> None:
    """Print the description of the whole API (OpenAPI 3)."""
    from gateway.serving import describe_api

    typer.echo(describe_api(), nl=False)


def _configured() -> "Settings":
    from gateway.obs.logging import configure_logging

    settings = read_settings()
    configure_logging(settings.server.log_level)
    return settings
