"""`tollway admin pools …` and `replicas …`: the engines that shall run, and those that do."""

import json
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
from gateway.commands.failing import fail

if TYPE_CHECKING:
    from gateway.admin_client import AdminClient

Pool = Annotated[str, typer.Argument(help="The pool's name or id.")]
Flag = Annotated[
    list[str] | None,
    typer.Option("--flag", help="Of the engine: max-model-len=8192; several times. name= takes it out."),
]
_COLUMNS = ("id", "name", "desired_state", "spec.kind", "spec.model", "ready", "wanted", "generation")
_REPLICA_COLUMNS = (
    "id",
    "pool_id",
    "node",
    "state",
    "url",
    "devices",
    "generation",
    "restarts",
    "ready_at",
    "last_error",
)

app = typer.Typer(help="Pools of engines: make, scale, drain and roll them.", no_args_is_help=True)
replicas = typer.Typer(help="The engines of the pools, as they are.", no_args_is_help=True)


@app.command("list")
def list_(url: Url = HERE, key: AdminKey = None, as_json: AsJson = False) -> None:
    """Show all."""
    found = call(url, key, lambda admin: admin.all("/pools"))
    show_list(found if as_json else [_counted(pool) for pool in found], _COLUMNS, as_json)


@app.command()
def create(
    name: str,
    model: Annotated[str, typer.Option(help="A checkpoint, a GGUF file or a repository, as the engine knows it.")],
    served: Annotated[list[str], typer.Option(help="Name that the engine serves it by; several times.")],
    kind: Annotated[str, typer.Option(help="tollway, vllm, sglang or external.")] = "tollway",
    gpu: Annotated[list[str] | None, typer.Option(help="A GPU's UUID or number; several times.")] = None,
    tensor_parallel: Annotated[int | None, typer.Option(help="GPUs of a replica.")] = None,
    min_replicas: Annotated[int, typer.Option("--min", help="Replicas.", min=0)] = 1,
    max_replicas: Annotated[int | None, typer.Option("--max", help="As --min if not given.", min=1)] = None,
    flag: Flag = None,
    engine_url: Annotated[list[str] | None, typer.Option(help="Where an external engine answers; several times.")] = None,
    url: Url = HERE, key: AdminKey = None, as_json: AsJson = False,
) -> None:  # fmt: skip
    """Make one; its supervisor starts the engines."""
    spec = given(
        kind=kind, model=model, served_names=served, tensor_parallel=tensor_parallel,
        gpus=[int(one) if one.isdigit() else one for one in gpu] if gpu else None,
        urls=engine_url or None, flags=_flags({}, flag) or None,
    )  # fmt: skip
    if kind != "external":
        spec |= {"min_replicas": min_replicas, "max_replicas": max_replicas or max(min_replicas, 1)}
    show_one(call(url, key, lambda admin: admin.post("/pools", {"name": name, "spec": spec})), as_json)


@app.command()
def show(pool: Pool, url: Url = HERE, key: AdminKey = None, as_json: AsJson = False) -> None:
    """Show one, with its replicas."""
    show_one(call(url, key, lambda admin: find_pool(admin, pool)), as_json)


@app.command()
def scale(
    pool: Pool,
    min_replicas: Annotated[int, typer.Option("--min", help="So many run.", min=0)],
    max_replicas: Annotated[int | None, typer.Option("--max", help="As --min if not given.", min=1)] = None,
    url: Url = HERE, key: AdminKey = None, as_json: AsJson = False,
) -> None:  # fmt: skip
    """Run more replicas or fewer; those that leave finish their requests."""
    most = max_replicas or max(min_replicas, 1)
    _change(pool, {"min_replicas": min_replicas, "max_replicas": most}, url, key, as_json)


@app.command()
def drain(
    pool: Pool, yes: Yes = False, url: Url = HERE, key: AdminKey = None, as_json: AsJson = False
) -> None:
    """No new requests; the running ones are finished, then the engines end."""
    confirmed(f"Drain all replicas of {pool}?", yes)
    _change(pool, {"desired_state": "stopped"}, url, key, as_json)


@app.command()
def start(pool: Pool, url: Url = HERE, key: AdminKey = None, as_json: AsJson = False) -> None:
    """Run a drained pool again."""
    _change(pool, {"desired_state": "running"}, url, key, as_json)


@app.command("set")
def set_(
    pool: Pool,
    name: Annotated[str | None, typer.Option(help="A new name.")] = None,
    reserved: Annotated[list[str] | None, typer.Option(help="For these projects alone; several times.")] = None,
    for_all: Annotated[bool, typer.Option("--for-all", help="For every project again.")] = False,
    url: Url = HERE, key: AdminKey = None, as_json: AsJson = False,
) -> None:  # fmt: skip
    """Change what replaces no replica: its name and whom it is for."""
    _change(pool, given(name=name, reserved_projects=[] if for_all else reserved or None), url, key, as_json)


@app.command()
def roll(
    pool: Pool,
    model: Annotated[str | None, typer.Option(help="Other weights.")] = None,
    flag: Flag = None,
    url: Url = HERE, key: AdminKey = None, as_json: AsJson = False,
) -> None:  # fmt: skip
    """Change model or engine flags: replicas are replaced one by one, each new one ready before an old one drains."""

    async def work(admin: "AdminClient") -> Json:
        found = await find_pool(admin, pool)
        spec = found["spec"]
        changed = {**spec, **given(model=model), "flags": _flags(spec.get("flags", {}), flag)}
        if changed == {**spec, "flags": spec.get("flags", {})}:
            fail(f"{pool} runs exactly this already: a roll follows from another --model or --flag")
        return await admin.post(f"/pools/{found['id']}", {"spec": changed})

    show_one(call(url, key, work), as_json)


@app.command()
def delete(
    pool: Pool, yes: Yes = False, url: Url = HERE, key: AdminKey = None, as_json: AsJson = False
) -> None:
    """Forget a drained pool."""
    confirmed(f"Delete the pool {pool}?", yes)

    async def work(admin: "AdminClient") -> Json:
        return await admin.delete(f"/pools/{(await find_pool(admin, pool))['id']}")

    show_one(call(url, key, work), as_json)


@replicas.command("list")
def list_replicas(
    pool: Annotated[str | None, typer.Option(help="Of this pool alone: its name or id.")] = None,
    url: Url = HERE, key: AdminKey = None, as_json: AsJson = False,
) -> None:  # fmt: skip
    """Show all, with the last error of each."""

    async def work(admin: "AdminClient") -> list[Json]:
        query = {} if pool is None else {"pool_id": str((await find_pool(admin, pool))["id"])}
        return await admin.all("/replicas", **query)

    show_list(call(url, key, work), _REPLICA_COLUMNS, as_json)


async def find_pool(admin: "AdminClient", name: str) -> Json:
    """By name or id. Raises `AdminCallFailed`."""
    from gateway.admin_client import AdminCallFailed

    for pool in await admin.all("/pools"):
        if name in (pool["id"], pool["name"]):
            return pool
    raise AdminCallFailed(f"There is no pool {name}.")


def _change(pool: str, body: Json, url: str, key: str | None, as_json: bool) -> None:
    async def work(admin: "AdminClient") -> Json:
        return await admin.post(f"/pools/{(await find_pool(admin, pool))['id']}", body)

    show_one(call(url, key, work), as_json)


def _flags(before: Json, changes: list[str] | None) -> Json:
    """`name=value` sets, a bare `name` is a flag without a value, `name=` takes one out. Numbers become numbers."""
    flags = dict(before)
    for change in changes or ():
        name, has_value, value = change.lstrip("-").partition("=")
        if has_value and not value:
            flags.pop(name, None)
        else:
            flags[name] = _value(value) if has_value else True
    return flags


def _value(text: str) -> object:
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, int | float | str) else text


def _counted(pool: Json) -> Json:
    spec = pool["spec"]
    wanted = len(spec.get("urls", ())) if spec.get("kind") == "external" else spec.get("min_replicas", 1)
    ready = sum(replica["state"] == "ready" for replica in pool["replicas"])
    return {**pool, "spec": {"kind": "tollway", **spec}, "ready": ready, "wanted": wanted}
