"""`tollway data …`: the arguments of what is done to a tenant's data. It is done by `gateway.retention`."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from gateway.commands.calling import Yes, confirmed
from gateway.commands.failing import database_named, one_sentence, read_settings

app = typer.Typer(help="A tenant's data: copy it, delete it, forget a person in it.", no_args_is_help=True)


@app.command("copy")
def copy_data(
    project: Annotated[str, typer.Argument(help="The project's id.")],
    out: Annotated[Path, typer.Option(help="A directory that does not exist yet.")],
) -> None:
    """Write everything that is stored about a project: JSON lines per table, and a manifest."""
    from gateway.retention.commands import copy_tenant

    with one_sentence(), database_named():
        for table, file in asyncio.run(copy_tenant(read_settings(), project, out)).items():
            typer.echo(f"{file.rows:>10}  {table}.jsonl")


@app.command("delete")
def delete_data(
    project: Annotated[str, typer.Argument(help="The project's id; it must be archived.")],
    yes: Yes = False,
) -> None:
    """Delete a project's keys, limits, names and people for ever; the money stays, under ids."""
    from gateway.retention.commands import delete_tenant

    confirmed(f"Delete the data of {project} for ever?", yes)
    with one_sentence(), database_named():
        for table, rows in asyncio.run(delete_tenant(read_settings(), project)).items():
            typer.echo(f"{rows:>10}  {table}")


@app.command("forget")
def forget_user(
    project: Annotated[str, typer.Argument(help="The project's id.")],
    user: Annotated[str, typer.Argument(help="The end user as the project names them, or the pseudonym.")],
) -> None:
    """Forget whom a pseudonym stands for; the money stays."""
    from gateway.retention.commands import forget

    with one_sentence(), database_named():
        typer.echo(f"forgotten: {asyncio.run(forget(read_settings(), project, user))}")
