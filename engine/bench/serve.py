"""`python -m engine bench serve`: load a server with streamed requests and report latencies and throughput.

Closed loop (`--max-concurrency`) or Poisson arrivals (`--request-rate`), any OpenAI-compatible URL, several client
processes. Prints one line and writes JSON if asked. Knows no server's internals.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from engine.bench.client import Target, run_client
from engine.bench.stats import Objectives, Outcome, Report, summarise
from engine.bench.workload import Workload

_NOT_SETTINGS = ("api_key", "output")
"""A secret, and where the result lies: no part of what was measured."""


def main(argv: Sequence[str]) -> int:
    """`argv` without the leading "bench". Returns 1 if any request failed."""
    arguments = _parse(argv)
    workload = Workload(
        arguments.num_prompts,
        arguments.random_input_len,
        arguments.random_output_len,
        arguments.seed,
        arguments.random_prefix_len,
    )
    target = Target(arguments.base_url, arguments.model, arguments.api_key, arguments.extra_body)
    outcomes = run(target, workload, arguments.clients, arguments.max_concurrency, arguments.request_rate)
    objectives = Objectives(arguments.goodput_ttft_ms, arguments.goodput_tpot_ms, arguments.goodput_e2el_ms)
    report = summarise(outcomes, objectives, num_warm_up=arguments.max_concurrency or 0)
    sys.stdout.write(_line(arguments.label, report) + "\n")
    if arguments.output is not None:
        settings = {name: str(value) for name, value in vars(arguments).items() if name not in _NOT_SETTINGS}
        with arguments.output.open("a") as file:
            file.write(json.dumps({"settings": settings} | report.as_dict()) + "\n")
    return 1 if report.failed else 0


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m engine bench")
    commands = parser.add_subparsers(required=True)
    add = commands.add_parser("serve", help="streamed requests to an OpenAI-compatible URL").add_argument
    add("--base-url", default="http://127.0.0.1:8000/v1")
    add("--model", required=True, help="served model name")
    add("--api-key")
    add("--num-prompts", type=int, default=64)
    add("--random-input-len", type=int, default=128, help="prompt tokens beside the shared prefix")
    add("--random-output-len", type=int, default=64)
    add("--random-prefix-len", type=int, default=0, help="tokens that all prompts share")
    add("--max-concurrency", type=int, help="closed loop: requests in flight")
    add("--request-rate", type=float, help="open loop: requests a second, Poisson")
    add("--seed", type=int, default=0)
    add("--clients", type=int, default=1, help="client processes")
    add("--goodput-ttft-ms", type=float)
    add("--goodput-tpot-ms", type=float)
    add("--goodput-e2el-ms", type=float)
    add("--extra-body", default="{}", help="JSON object merged into every request")
    add("--label", default="", help="a name for the run in the output")
    add("--output", type=Path, help="append the result as one JSON line")
    return parser.parse_args(argv)


def run(
    target: Target, workload: Workload, num_clients: int, concurrency: int | None, rate: float | None
) -> list[Outcome]:
    """Deal the requests out to the client processes, round robin, and collect what happened to them."""
    due = workload.arrivals(rate)
    num_clients = max(1, min(num_clients, concurrency or workload.num_requests))
    shares = [range(client, workload.num_requests, num_clients) for client in range(num_clients)]
    places = [
        None if concurrency is None else (concurrency + client) // num_clients
        for client in range(num_clients)
    ]
    if num_clients == 1:
        return run_client(target, workload, shares[0], due, places[0])
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(num_clients, mp_context=context) as pool:
        futures = [
            pool.submit(run_client, target, workload, share, [due[index] for index in share], limit)
            for share, limit in zip(shares, places, strict=True)
        ]
        return [outcome for future in futures for outcome in future.result()]


def _line(label: str, report: Report) -> str:
    def of(name: str) -> str:
        spread = report.latencies_ms[name]
        return " / ".join(f"{spread[f'p{share}']:.1f}" for share in (50, 95, 99)) if spread else "-"

    text = (
        f"{label or 'run'}: {report.completed} ok, {report.failed} failed, {report.output_tokens_per_s:.0f} out tok/s, "
        f"{report.requests_per_s:.2f} req/s, goodput {report.goodput_per_s:.2f}/s, {report.cached_prompt_share:.0%} of the "
        f"prompts cached | ms p50/p95/p99: "
        f"TTFT {of('ttft')}, TPOT {of('tpot')}, ITL {of('itl')}, E2EL {of('e2el')}"
    )
    return text if report.first_error is None else f"{text} | first error: {report.first_error}"
