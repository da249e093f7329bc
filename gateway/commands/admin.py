"""`tollway admin …`: the arguments of administration."""

import asyncio
import sys
from typing import Annotated

import typer

from gateway.commands.failing import database_named, one_sentence, read_settings
from gateway.commands.resources import budgets, keys, limits, pools, prices, projects, routes

app = typer.Typer(
    help="Administration: what needs the database, and everyday calls with an admin key.",
    no_args_is_help=True,
)
app.add_typer(projects.app, name="projects")
app.add_typer(keys.app, name="keys")
app.add_typer(limits.app, name="limits")
app.add_typer(budgets.app, name="budgets")
app.add_typer(prices.app, name="prices")
app.add_typer(routes.app, name="routes")
app.add_typer(pools.app, name="pools")
app.add_typer(pools.replicas, name="replicas")


@app.command()
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
    with one_sentence(), database_named():
        secret = _asked_password() if password else None
        typer.echo(asyncio.run(bootstrap_admin(read_settings(), name, email, secret)))


@app.command("set-password")
def set_password(
    who: Annotated[str, typer.Argument(help="The user's e-mail address or id.")],
    email: Annotated[str | None, typer.Option(help="Their address from now on; for who has none.")] = None,
) -> None:
    """Give a user a password for the console, asked for or read from stdin. Their sessions end."""
    from gateway.serving import set_password as put

    with one_sentence(), database_named():
        typer.echo(asyncio.run(put(read_settings(), who, _asked_password(), email)))


def _asked_password() -> str:
    """Twice and unseen from a terminal; else the first line of stdin. Never from an argument, which others can see."""
    if sys.stdin.isatty():
        return str(typer.prompt("Password", hide_input=True, confirmation_prompt=True))
    return sys.stdin.readline().rstrip("\r\n")
