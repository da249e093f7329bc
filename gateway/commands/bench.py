"""`tollway bench`: its arguments. What is measured, and how, is `workbench.bench`'s."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gateway.commands.failing import fail
from gateway.commands.screen import screen

if TYPE_CHECKING:
    from workbench.bench.datasets import Dataset
    from workbench.bench.results import Result
    from workbench.bench.sweep import Server, Sweep, Watcher


def bench(
    url: Annotated[str, typer.Argument(help="Up to and with /v1.")],
    model: Annotated[str, typer.Option(help="Served model name.")],
    against: Annotated[str | None, typer.Option(help="A second URL, alternated with the first.")] = None,
    against_model: Annotated[str | None, typer.Option(help="Its model, if it has another name.")] = None,
    labels: Annotated[str, typer.Option(help="What the two are called in the report.")] = "first,second",
    api_key: Annotated[str | None, typer.Option(envvar="OPENAI_API_KEY", help="Sent to both.")] = None,
    against_api_key: Annotated[
        str | None, typer.Option(envvar="AGAINST_API_KEY", help="Of the second.")
    ] = None,
    dataset: Annotated[
        str, typer.Option(help="random, shared-prefix, multi-turn, or a file: ShareGPT's .json, or .jsonl.")
    ] = "random",
    input_len: Annotated[int, typer.Option(help="Tokens of a prompt (words, of a chat).", min=1)] = 256,
    output_len: Annotated[
        int | None, typer.Option(help="Tokens of an answer; 64, or the file's.", min=1)
    ] = None,
    prefix_len: Annotated[int, typer.Option(help="Tokens of a shared prefix.", min=1)] = 1024,
    prefixes: Annotated[int, typer.Option(help="Different shared prefixes.", min=1)] = 8,
    turns: Annotated[
        int, typer.Option(help="Of a multi-turn conversation; of a file's, at most; 4 and 1.", min=0)
    ] = 0,
    vocab: Annotated[str, typer.Option(help="Random token ids are from here up to there.")] = "1000:100000",
    rates: Annotated[
        str | None,
        typer.Option(help="Requests a second: 1,2,4,8; found by the first server's limit if not given."),
    ] = None,
    duration: Annotated[float, typer.Option(help="Seconds of arrivals at each rate.", min=0.001)] = 30.0,
    min_requests: Annotated[int, typer.Option(help="At each rate, however low.", min=1)] = 20,
    concurrency: Annotated[
        int, typer.Option(help="Conversations at once while the limit is found.", min=1)
    ] = 32,
    slo_ttft_ms: Annotated[float | None, typer.Option(help="Goodput: first token within this.")] = None,
    slo_tpot_ms: Annotated[float | None, typer.Option(help="Goodput: then a token within this.")] = None,
    slo_e2el_ms: Annotated[float | None, typer.Option(help="Goodput: the whole answer within this.")] = None,
    ignore_eos: Annotated[
        bool, typer.Option(help="Answers of full length; not every server knows it.")
    ] = True,
    extra_body: Annotated[str, typer.Option(help="JSON object merged into every request.")] = "{}",
    seed: Annotated[int, typer.Option(help="The same seed sends the same.")] = 0,
    as_json: Annotated[
        Path | None, typer.Option("--json", help="Write the results, for `tollway plan`.")
    ] = None,
    png: Annotated[Path | None, typer.Option(help="Write the TTFT–QPS curve.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write the report, one file.")] = None,
) -> None:
    """Serving benchmark: a sweep over request rates, the knee of its TTFT, goodput; one server or two."""
    given = {
        name: str(value) if isinstance(value, Path) else value
        for name, value in locals().items()
        if value is not None and not name.endswith("api_key")
    }
    from workbench.bench.errors import BenchError
    from workbench.bench.sweep import Objectives, Sweep

    try:
        sweep = Sweep(
            dataset=_dataset(
                dataset, input_len, output_len, prefix_len, prefixes, turns, _vocab(vocab), seed
            ),
            objectives=Objectives(slo_ttft_ms, slo_tpot_ms, slo_e2el_ms),
            rates=_rates(rates),
            duration_s=duration,
            requests_min=min_requests,
            concurrency=concurrency,
            seed=seed,
        )
        body = _body(extra_body, ignore_eos)
        places = [(url, model, api_key), (against, against_model or model, against_api_key or api_key)]
        servers = _servers(labels, places, body)
        result = _measure(sweep, servers, given)
        _write(result, as_json, png, html)
    except BenchError as error:
        fail(error)
    except OSError as error:
        fail(f"a result cannot be written: {error}")


def _measure(sweep: "Sweep", servers: "list[Server]", settings: dict[str, Any]) -> "Result":
    from workbench.bench.sweep import run_sweep

    with _progress() as watcher:
        return asyncio.run(run_sweep(sweep, servers, settings, watcher))


def _write(result: "Result", as_json: Path | None, png: Path | None, html: Path | None) -> None:
    """The figures first: a picture that cannot be drawn must not take the measurement with it."""
    from workbench.bench import results
    from workbench.bench.page import as_page
    from workbench.bench.picture import draw
    from workbench.bench.tables import as_terminal

    screen().print(as_terminal(result))
    if as_json is not None:
        as_json.write_text(json.dumps(results.as_json(result), indent=1) + "\n", encoding="utf-8")
    if png is not None or html is not None:
        picture = draw(result)
        if png is not None:
            png.write_bytes(picture)
        if html is not None:
            html.write_text(as_page(result, picture), encoding="utf-8")


@contextmanager
def _progress() -> "Iterator[Watcher]":
    """A bar on stderr, per server and rate; the results alone go to stdout."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from workbench.bench.sweep import Watcher

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    progress = Progress(*columns, console=Console(stderr=True))

    class Bars(Watcher):
        def begins(self, what: str, requests: int) -> None:
            progress.start()  # again and again: only the first time counts
            self._task = progress.add_task(what, total=requests)

        def done(self, requests: int) -> None:
            progress.advance(self._task, requests)

    try:
        yield Bars()
    finally:
        if progress.tasks:
            progress.stop()


def _dataset(
    name: str, input_len: int, output_len: int | None, prefix_len: int, prefixes: int, turns: int,
    vocab: tuple[int, int], seed: int,
) -> "Dataset":  # fmt: skip
    from workbench.bench.datasets import MultiTurn, Synthetic, read_file
    from workbench.bench.errors import BenchError

    if name == "random":
        return Synthetic(input_len, output_len or 64, seed=seed, vocab=vocab)
    if name == "shared-prefix":
        return Synthetic(input_len, output_len or 64, prefix_len, prefixes, seed, vocab)
    if name == "multi-turn":
        return MultiTurn(input_len, output_len or 64, turns or 4, seed)
    path = Path(name)
    if path.suffix not in (".json", ".jsonl"):
        raise BenchError(
            f"--dataset {name}: give random, shared-prefix, multi-turn, or a .json or .jsonl file"
        )
    return read_file(path, output_len, turns or 1)


def _servers(labels: str, places: "list[tuple[str | None, str, str | None]]", body: str) -> "list[Server]":
    from workbench.bench.errors import BenchError
    from workbench.bench.sweep import Server, Target

    names = [label.strip() for label in labels.split(",")]
    if len(names) != 2 or len(set(names)) != 2 or not all(names):
        raise BenchError(f"--labels {labels!r}: give two different names with a comma between them")
    return [
        Server(label, Target(url.rstrip("/"), model, key, body))
        for label, (url, model, key) in zip(names, places, strict=True)
        if url is not None
    ]


def _rates(text: str | None) -> tuple[float, ...]:
    from workbench.bench.errors import BenchError

    try:
        rates = tuple(float(part) for part in text.split(",")) if text is not None else ()
    except ValueError:
        rates = (0.0,)
    if any(not 0 < rate < float("inf") for rate in rates) or len(set(rates)) != len(rates):
        raise BenchError(
            f"--rates {text!r}: give different numbers above 0 with commas between them: 1,2,4,8"
        )
    return rates


def _vocab(text: str) -> tuple[int, int]:
    from workbench.bench.errors import BenchError

    low, _, high = text.partition(":")
    if not (low.isdigit() and high.isdigit() and int(low) < int(high)):
        raise BenchError(f"--vocab {text!r}: give two token ids, the lower first: 1000:100000")
    return int(low), int(high)


def _body(extra: str, ignore_eos: bool) -> str:
    from workbench.bench.errors import BenchError

    try:
        body = json.loads(extra)
    except ValueError as error:
        raise BenchError(f"--extra-body is not JSON: {error}") from error
    if not isinstance(body, dict):
        raise BenchError("--extra-body must be a JSON object")
    return json.dumps(({"ignore_eos": True} if ignore_eos else {}) | body)
