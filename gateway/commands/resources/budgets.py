"""`tollway admin budgets …`: how much may be spent in a period."""

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
from gateway.commands.resources.amounts import nanousd

Budget = Annotated[str, typer.Argument(help="The budget's id.")]
_COLUMNS = (
    "id",
    "scope",
    "project_id",
    "key_id",
    "period",
    "limit_nanousd",
    "current_period.spent_nanousd",
    "is_hard",
)

app = typer.Typer(help="Budgets of the organisation, of projects, of keys.", no_args_is_help=True)


@app.command("list")
def list_(
    project: Annotated[str | None, typer.Option(help="Of this project alone.")] = None,
    url: Url = HERE, key: AdminKey = None, as_json: AsJson = False,
) -> None:  # fmt: skip
    """Show all, and what of each is spent."""
    query = given(project_id=project)
    show_list(call(url, key, lambda admin: admin.all("/budgets", **query)), _COLUMNS, as_json)


@app.command()
def create(
    usd: Annotated[str, typer.Argument(help="US dollars: 250 or 12.50.")],
    period: Annotated[str, typer.Option(help="daily, weekly, monthly or prepaid.")] = "monthly",
    project: Annotated[str | None, typer.Option(help="Whose; the organisation's if not given.")] = None,
    api_key: Annotated[str | None, typer.Option(help="Of this key of the project.")] = None,
    soft: Annotated[bool, typer.Option("--soft", help="Tell, but refuse nothing.")] = False,
    zone: Annotated[str | None, typer.Option(help="Time zone of the periods: Europe/Berlin.")] = None,
    url: Url = HERE, key: AdminKey = None, as_json: AsJson = False,
) -> None:  # fmt: skip
    """Make one."""
    body = given(
        limit_nanousd=nanousd(usd),
        period=period,
        project_id=project,
        key_id=api_key,
        is_hard=not soft,
        zone=zone,
    )
    show_one(call(url, key, lambda admin: admin.post("/budgets", body)), as_json)


@app.command()
def show(budget: Budget, url: Url = HERE, key: AdminKey = None, as_json: AsJson = False) -> None:
    """Show one."""
    show_one(call(url, key, lambda admin: admin.get(f"/budgets/{budget}")), as_json)


@app.command("set")
def set_(
    budget: Budget,
    usd: Annotated[str | None, typer.Option(help="The new amount in US dollars.")] = None,
    hard: Annotated[bool | None, typer.Option("--hard/--soft", help="Refuse beyond it, or only tell.")] = None,
    url: Url = HERE, key: AdminKey = None, as_json: AsJson = False,
) -> None:  # fmt: skip
    """Change its amount, or whether it refuses."""
    body = given(limit_nanousd=None if usd is None else nanousd(usd), is_hard=hard)
    show_one(call(url, key, lambda admin: admin.post(f"/budgets/{budget}", body)), as_json)


@app.command()
def delete(
    budget: Budget, yes: Yes = False, url: Url = HERE, key: AdminKey = None, as_json: AsJson = False
) -> None:
    """Spend without it."""
    confirmed(f"Delete the budget {budget}?", yes)
    show_one(call(url, key, lambda admin: admin.delete(f"/budgets/{budget}")), as_json)
