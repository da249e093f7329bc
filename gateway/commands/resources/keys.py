"""`tollway admin keys …`: a project's API keys."""

from typing import Annotated

import typer

from gateway.commands.calling import (
    HERE,
    AdminKey,
    AsJson,
    Url,
    Yes,
    call,
    confirmed,
    given,
    show_list,
    show_one,
)

Project = Annotated[str, typer.Argument(help="The project's id.")]
ApiKey = Annotated[str, typer.Argument(help="The key's id.")]
_COLUMNS = ("id", "name", "redacted_value", "scopes", "last_used_at", "expires_at")
_DAY_S = 86_400

app = typer.Typer(help="API keys of a project.", no_args_is_help=True)


@app.command("list")
def list_(project: Project, url: Url = HERE, key: AdminKey = None, as_json: AsJson = False) -> None:
    """Show all of a project."""
    show_list(call(url, key, lambda admin: admin.all(f"/projects/{project}/api_keys")), _COLUMNS, as_json)


@app.command()
def create(
    project: Project,
    name: str,
    account: Annotated[str | None, typer.Option(help="The service account whose key it shall be.")] = None,
    days: Annotated[int | None, typer.Option(help="It expires after so many.", min=1)] = None,
    scope: Annotated[list[str] | None, typer.Option(help="May be given several times.")] = None,
    ip: Annotated[list[str] | None, typer.Option(help="Works from there only: an address or network.")] = None,
    url: Url = HERE, key: AdminKey = None, as_json: AsJson = False,
) -> None:  # fmt: skip
    """Make one and show its value, once."""
    body = given(
        name=name, service_account_id=account, scopes=scope or None, ip_allow_list=ip or None,
        expires_in_seconds=None if days is None else days * _DAY_S,
    )  # fmt: skip
    show_one(call(url, key, lambda admin: admin.post(f"/projects/{project}/api_keys", body)), as_json)


@app.command()
def show(
    project: Project, api_key: ApiKey, url: Url = HERE, key: AdminKey = None, as_json: AsJson = False
) -> None:
    """Show one, without its value."""
    show_one(call(url, key, lambda admin: admin.get(f"/projects/{project}/api_keys/{api_key}")), as_json)


@app.command()
def revoke(
    project: Project, api_key: ApiKey, yes: Yes = False,
    url: Url = HERE, key: AdminKey = None, as_json: AsJson = False,
) -> None:  # fmt: skip
    """It stops working at once, for good."""
    confirmed(f"Revoke {api_key} for good?", yes)
    show_one(call(url, key, lambda admin: admin.delete(f"/projects/{project}/api_keys/{api_key}")), as_json)
