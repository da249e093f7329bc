"""`tollway admin limits …`: what a project, a key or a model may ask for in a while."""

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
Most = Annotated[int | None, typer.Option(help="None if not given.", min=0)]
_COLUMNS = (
    "id", "key_id", "served_model", "requests_per_min", "tokens_per_min", "requests_per_day", "concurrent_requests",
    "max_prompt_tokens", "max_output_tokens",
)  # fmt: skip

app = typer.Typer(help="Limits of a project, of a key, of a model.", no_args_is_help=True)


@app.command("list")
def list_(project: Project, url: Url = HERE, key: AdminKey = None, as_json: AsJson = False) -> None:
    """Show all of a project."""
    show_list(call(url, key, lambda admin: admin.all(f"/projects/{project}/limits")), _COLUMNS, as_json)


@app.command("set")
def set_(
    project: Project,
    api_key: Annotated[str | None, typer.Option(help="Of this key alone.")] = None,
    model: Annotated[str | None, typer.Option(help="For this served name alone.")] = None,
    requests_per_min: Most = None,
    requests_burst: Most = None,
    tokens_per_min: Most = None,
    requests_per_day: Most = None,
    concurrent_requests: Most = None,
    max_prompt_tokens: Most = None,
    max_output_tokens: Most = None,
    url: Url = HERE, key: AdminKey = None, as_json: AsJson = False,
) -> None:  # fmt: skip
    """Put these limits in the place of the scope's others. Zero lets nothing through."""
    body = given(
        key_id=api_key, served_model=model, requests_per_min=requests_per_min, requests_burst=requests_burst,
        tokens_per_min=tokens_per_min, requests_per_day=requests_per_day, concurrent_requests=concurrent_requests,
        max_prompt_tokens=max_prompt_tokens, max_output_tokens=max_output_tokens,
    )  # fmt: skip
    show_one(call(url, key, lambda admin: admin.post(f"/projects/{project}/limits", body)), as_json)


@app.command()
def delete(
    project: Project, limit: Annotated[str, typer.Argument(help="The limits' id.")], yes: Yes = False,
    url: Url = HERE, key: AdminKey = None, as_json: AsJson = False,
) -> None:  # fmt: skip
    """Take limits away."""
    confirmed(f"Delete the limits {limit}?", yes)
    show_one(call(url, key, lambda admin: admin.delete(f"/projects/{project}/limits/{limit}")), as_json)
