"""`tollway admin prices …`: what a token costs. A price is never changed: a newer one takes its place."""

from typing import Annotated

import typer

from gateway.commands.calling import HERE, AdminKey, AsJson, Url, call, given, show_list
from gateway.commands.resources.amounts import nanousd_per_token

Usd = Annotated[str, typer.Option(help="US dollars per million tokens.")]
_COLUMNS = ("sku", "component", "nanousd_per_token", "valid_from", "valid_until")

app = typer.Typer(help="Prices of SKUs.", no_args_is_help=True)


@app.command("list")
def list_(
    sku: Annotated[str | None, typer.Option(help="Of this SKU alone.")] = None,
    url: Url = HERE, key: AdminKey = None, as_json: AsJson = False,
) -> None:  # fmt: skip
    """Show all, past and future ones too."""
    query = given(sku=sku)
    show_list(call(url, key, lambda admin: admin.all("/prices", **query)), _COLUMNS, as_json)


@app.command()
def create(
    sku: str,
    input: Usd,
    output: Usd,
    cached_input: Annotated[str | None, typer.Option(help="As input, if not given.")] = None,
    batch_factor: Annotated[str | None, typer.Option(help="Of the price, for batches: 0.5.")] = None,
    valid_from: Annotated[str | None, typer.Option("--from", help="An instant, with its zone; now if not given.")] = None,
    url: Url = HERE, key: AdminKey = None, as_json: AsJson = False,
) -> None:  # fmt: skip
    """Set what a SKU costs from now or then on."""
    body = given(
        sku=sku,
        input_nanousd_per_token=nanousd_per_token(input),
        cached_input_nanousd_per_token=nanousd_per_token(cached_input or input),
        output_nanousd_per_token=nanousd_per_token(output),
        batch_factor=batch_factor,
        valid_from=valid_from,
    )
    made = call(url, key, lambda admin: admin.post("/prices", body))
    show_list(made["data"], _COLUMNS, as_json)
