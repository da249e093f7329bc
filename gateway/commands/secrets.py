"""`tollway secrets …`: the arguments of rotation. What is done is `gateway.rotation`'s."""

from typing import TYPE_CHECKING, Annotated

import typer

from gateway.commands.failing import database_named, one_sentence, read_settings

if TYPE_CHECKING:
    from gateway.rotation import Secrets

Standby = Annotated[
    bool,
    typer.Option("--standby", help="Add it behind the current one; the next call makes it the current one."),
]
KeyName = Annotated[str, typer.Argument(help="The key's id, as `secrets status` shows it.")]

app = typer.Typer(help="The server's own secrets: peppers and master keys.", no_args_is_help=True)


@app.command("status")
def secrets_status() -> None:
    """Show each pepper and master key, and how much needs it."""
    from gateway.rotation import KeyUse, run

    async def ask(secret: "Secrets") -> dict[str, list[KeyUse]]:
        return {"pepper": await secret.peppers(), "master key": await secret.master_keys()}

    with one_sentence(), database_named():
        for kind, uses in run(read_settings(), ask).items():
            for use in uses:
                typer.echo(
                    f"{kind:<10}  {use.name:<8}  {use.in_use:>8}{'  current' if use.is_current else ''}"
                )


@app.command("rotate-pepper")
def rotate_pepper(standby: Standby = False) -> None:
    """Add a pepper for new keys, in TOLLWAY_SECURITY__KEY_PEPPER_FILE. Keys are stored anew when they are used."""
    from gateway.rotation import run

    with one_sentence(), database_named():
        typer.echo(run(read_settings(), lambda secret: secret.rotate_pepper(standby=standby)))


@app.command("rotate-master-key")
def rotate_master_key(standby: Standby = False) -> None:
    """Add a master key, in TOLLWAY_MASTER_KEY, and seal with it what older ones have sealed."""
    from gateway.rotation import run

    with one_sentence(), database_named():
        typer.echo(run(read_settings(), lambda secret: secret.rotate_master_key(standby=standby)))


@app.command("drop-pepper")
def drop_pepper(name: KeyName) -> None:
    """Take an old pepper out of its file; refused while keys that work are stored under it."""
    from gateway.rotation import run

    with one_sentence(), database_named():
        run(read_settings(), lambda secret: secret.drop_pepper(name))


@app.command("drop-master-key")
def drop_master_key(name: KeyName) -> None:
    """Take an old master key out of its file, once nothing is sealed under it any more."""
    from gateway.rotation import run

    with one_sentence(), database_named():
        run(read_settings(), lambda secret: secret.drop_master_key(name))
