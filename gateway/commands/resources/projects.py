"""`tollway admin projects …`: the tenants."""

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
_COLUMNS = ("id", "name", "status", "fairness_weight", "created_at")

app = typer.Typer(help="Projects: the tenants.", no_args_is_help=True)


@app.command("list")
def list_(
    archived: Annotated[bool, typer.Option("--archived", help="Archived ones too.")] = False,
    url: Url = HERE, key: AdminKey = None, as_json: AsJson = False,
) -> None:  # fmt: skip
    """Show all."""
    query = {"include_archived": "true"} if archived else {}
    show_list(call(url, key, lambda admin: admin.all("/projects", **query)), _COLUMNS, as_json)


@app.command()
def create(
    name: str,
    weight: Annotated[int | None, typer.Option(help="Share of a busy pool, against others' weights.")] = None,
    url: Url = HERE, key: AdminKey = None, as_json: AsJson = False,
) -> None:  # fmt: skip
    """Make one."""
    body = given(name=name, fairness_weight=weight)
    show_one(call(url, key, lambda admin: admin.post("/projects", body)), as_json)


@app.command()
def show(project: Project, url: Url = HERE, key: AdminKey = None, as_json: AsJson = False) -> None:
    """Show one."""
    show_one(call(url, key, lambda admin: admin.get(f"/projects/{project}")), as_json)


@app.command("set")
def set_(
    project: Project,
    name: Annotated[str | None, typer.Option(help="A new name.")] = None,
    weight: Annotated[int | None, typer.Option(help="Share of a busy pool.")] = None,
    url: Url = HERE, key: AdminKey = None, as_json: AsJson = False,
) -> None:  # fmt: skip
    """Change name or weight."""
    body = given(name=name, fairness_weight=weight)
    show_one(call(url, key, lambda admin: admin.post(f"/projects/{project}", body)), as_json)


@app.command()
def archive(
    project: Project, yes: Yes = False, url: Url = HERE, key: AdminKey = None, as_json: AsJson = False
) -> None:
    """End it for good: its keys stop working."""
    confirmed(f"Archive {project}? Its keys stop working.", yes)
    show_one(call(url, key, lambda admin: admin.post(f"/projects/{project}/archive", {})), as_json)
