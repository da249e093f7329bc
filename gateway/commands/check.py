"""`tollway check`: its arguments. The checklist is `gateway.checks`'."""

import asyncio
import json
from pathlib import Path
from typing import Annotated

import typer

from gateway.commands.calling import HERE, AsJson, needed
from gateway.commands.failing import fail, one_sentence, read_settings
from gateway.commands.screen import screen


def check(
    url: Annotated[str, typer.Argument(help="The gateway's URL.")] = HERE,
    admin_key: Annotated[
        str | None, typer.Option(envvar="OPENAI_ADMIN_KEY", help="A key of role viewer or more.")
    ] = None,
    prometheus: Annotated[str | None, typer.Option(help="Prometheus's URL: are alerts loaded?")] = None,
    workloads: Annotated[
        Path | None,
        typer.Option(help="`kubectl get deployments,statefulsets -o json`: digests, probes, grace."),
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="A warning is a failure too.")] = False,
    as_json: AsJson = False,
) -> None:
    """Production checklist against a running installation, by its own settings. Status 1 if a line fails."""
    from gateway.admin_client import AdminCallFailed
    from gateway.checks import report
    from gateway.checks.gather import Places, gather

    places = Places(url, needed(admin_key), prometheus, workloads)
    with one_sentence():
        try:
            facts = asyncio.run(gather(read_settings(), places))
        except AdminCallFailed as error:
            fail(error)
        findings = report.examine(facts)
    if as_json:
        typer.echo(json.dumps(report.as_json(findings), indent=2))
    else:
        screen().print(report.as_table(findings))
    raise typer.Exit(report.exit_status(findings, strict=strict))
