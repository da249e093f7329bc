"""`tollway admin routes …`: which pool answers to a served name, and at what price."""

from typing import TYPE_CHECKING, Annotated

import typer

from gateway.commands.calling import (
    HERE,
    AdminKey,
    AsJson,
    Json,
    Url,
    Yes,
    call,
    confirmed,
    given,
    show_list,
    show_one,
)
from gateway.commands.resources.pools import find_pool

if TYPE_CHECKING:
    from gateway.admin_client import AdminClient

Route = Annotated[str, typer.Argument(help="The route's id.")]
_COLUMNS = ("id", "served_model", "project_id", "pool_id", "sku", "published")

app = typer.Typer(help="Routes from served names to pools.", no_args_is_help=True)


@app.command("list")
def list_(url: Url = HERE, key: AdminKey = None, as_json: AsJson = False) -> None:
    """Show all."""
    show_list(call(url, key, lambda admin: admin.all("/routes")), _COLUMNS, as_json)


@app.command()
def create(
    model: Annotated[str, typer.Argument(help="The served name.")],
    pool: Annotated[str, typer.Option(help="The pool's name or id.")],
    sku: Annotated[str, typer.Option(help="What it is billed as.")],
    project: Annotated[str | None, typer.Option(help="For this project alone; for all if not given.")] = None,
    unpublished: Annotated[bool, typer.Option("--unpublished", help="Prepared, but not to be called yet.")] = False,
    max_output: Annotated[int | None, typer.Option(help="Tokens of an answer whose request names no limit.")] = None,
    url: Url = HERE, key: AdminKey = None, as_json: AsJson = False,
) -> None:  # fmt: skip
    """Make one."""

    async def work(admin: "AdminClient") -> Json:
        body = given(served_model=model, sku=sku, project_id=project, default_max_output=max_output)
        there = (await find_pool(admin, pool))["id"]
        return await admin.post("/routes", {**body, "pool_id": there, "published": not unpublished})

    show_one(call(url, key, work), as_json)


@app.command()
def show(route: Route, url: Url = HERE, key: AdminKey = None, as_json: AsJson = False) -> None:
    """Show one."""
    show_one(call(url, key, lambda admin: admin.get(f"/routes/{route}")), as_json)


@app.command("set")
def set_(
    route: Route,
    pool: Annotated[str | None, typer.Option(help="Requests go there from now on.")] = None,
    sku: Annotated[str | None, typer.Option(help="What it is billed as from now on.")] = None,
    published: Annotated[bool | None, typer.Option("--published/--unpublished", help="May it be called?")] = None,
    max_output: Annotated[int | None, typer.Option(help="Tokens of an answer whose request names no limit.")] = None,
    url: Url = HERE, key: AdminKey = None, as_json: AsJson = False,
) -> None:  # fmt: skip
    """Move it to another pool or price, publish or withdraw it."""

    async def work(admin: "AdminClient") -> Json:
        there = None if pool is None else (await find_pool(admin, pool))["id"]
        body = given(pool_id=there, sku=sku, published=published, default_max_output=max_output)
        return await admin.post(f"/routes/{route}", body)

    show_one(call(url, key, work), as_json)


@app.command()
def delete(
    route: Route, yes: Yes = False, url: Url = HERE, key: AdminKey = None, as_json: AsJson = False
) -> None:
    """The name is served no more."""
    confirmed(f"Delete the route {route}?", yes)
    show_one(call(url, key, lambda admin: admin.delete(f"/routes/{route}")), as_json)
