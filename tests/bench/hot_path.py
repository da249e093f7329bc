"""The gateway's hot path beside others, in one run: nobody, the barest relay, Tollway with every check on, LiteLLM,
a Rust router.

    python -m tests.bench.hot_path [--rounds 3] [--only bare,tollway] [--streams 1,32,256] [--wholes 1,32,256]
    python -m tests.bench.hot_path --paced [--pace-ms 20]      128 streams at once: are chunks late?
    python -m tests.bench.hot_path --soak 100000               does memory grow?

Legs alternate within each round, on one upstream and one client. Per leg: processor time of the relaying process (and,
for Tollway, of Postgres and Valkey beside it), and what it adds to the first byte and to the whole answer against asking
the upstream directly in the same round. A machine that others use too makes single figures worthless; ratios of one
round mean something. Figures go to `tests/bench/results/` with `--save NAME`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import psutil

from gateway.local.postgres import EmbeddedPostgres
from gateway.local.valkey import EmbeddedValkey
from gateway.migrate import migrate
from gateway.pool.process import free_port
from tests.bench import gateway_relay as standing
from tests.bench.asking import Times, ask_many, request_bytes
from tests.bench.peers import PEERS, default_cache, served, tree_cpu_s

RESULTS = Path(__file__).parent / "results"
DIRECT, BARE, TOLLWAY = "direct", "bare", "tollway"
CLIENT_LIMIT_S = 6.0
"""Of one leg: who is slow answers fewer requests, and takes no more of the run than others."""
REQUESTS = {True: (12, 10, 768), False: (200, 60, 3000)}
"""Of one leg: streamed → at least, for each connection, at most."""
PEER_START_S = 300
PACED_STREAMS = 128
SOAK_CONCURRENCY = 32
SOAK_LEGS = 50


@dataclass(frozen=True, slots=True)
class Candidate:
    """Whom one can ask. `roots`: whose processor time counts, `helpers`: whose is told beside it."""

    name: str
    url: str
    key: str
    roots: Sequence[psutil.Process]
    helpers: Sequence[psutil.Process] = ()


@dataclass(frozen=True, slots=True)
class Leg:
    name: str
    streamed: bool
    concurrency: int
    round: int
    requests: int
    failed: int
    cpu_ms: float | None
    """Per request; None where nobody stands between."""
    helpers_cpu_ms: float
    first_ms: float
    total_ms: float
    """Medians."""
    wall_s: float


async def stand_up(directory: Path, stack: ExitStack, names: Sequence[str]) -> list[Candidate]:
    """Everything started, configured and ready, in the order in which it is asked."""
    postgres, valkey = EmbeddedPostgres(directory), EmbeddedValkey(directory)
    postgres.start()
    stack.callback(postgres.stop)
    valkey.start()
    stack.callback(valkey.stop)
    helpers = _roots_in(directory)
    upstream_port = free_port()
    upstream_url = f"http://127.0.0.1:{upstream_port}"
    stack.enter_context(standing.process("-m", "tests.bench.relay", "upstream", str(upstream_port)))
    await standing.wait_for(f"{upstream_url}/health")
    found = [Candidate(DIRECT, upstream_url, "none", ())]
    if BARE in names:
        port = free_port()
        bare = stack.enter_context(
            standing.process("-m", "tests.bench.relay", "bare", str(port), upstream_url)
        )
        found.append(Candidate(BARE, f"http://127.0.0.1:{port}", "none", (bare,)))
    if TOLLWAY in names:
        found.append(await _tollway(directory, stack, postgres, valkey, upstream_url, helpers))
    for peer in PEERS:
        if peer.name in names:
            port = free_port()
            url = f"http://127.0.0.1:{port}"
            process = stack.enter_context(
                served(peer, default_cache(), directory, upstream_url, standing.MODEL, port)
            )
            await standing.wait_for(f"{url}{peer.ready_path}", PEER_START_S)
            found.append(Candidate(peer.name, url, peer.key, (process,)))
    return found


async def _tollway(
    directory: Path,
    stack: ExitStack,
    postgres: EmbeddedPostgres,
    valkey: EmbeddedValkey,
    upstream_url: str,
    helpers: Sequence[psutil.Process],
) -> Candidate:
    url, admin_key, gateway = await gateway_process(directory, stack, postgres, valkey)
    key = await standing.configure(url, admin_key, postgres.url("postgres"), upstream_url)
    return Candidate(TOLLWAY, url, key, (gateway,), helpers)


async def gateway_process(
    directory: Path, stack: ExitStack, postgres: EmbeddedPostgres, valkey: EmbeddedValkey
) -> tuple[str, str, psutil.Process]:
    """Its URL, the first admin key and the process, ready."""
    database_url = postgres.url("postgres")
    await migrate(database_url)
    port = free_port()
    environment = {
        "DATABASE_URL": database_url,
        "REDIS_URL": valkey.url(),
        "TOLLWAY_SERVER__PORT": str(port),
        "TOLLWAY_SECURITY__KEY_PEPPER": standing.PEPPER,
        "TOLLWAY_UPSTREAM__INTERNAL_KEY": "internal",
        "TOLLWAY_LEDGER__SPOOL_DIR": str(directory / "spool"),
    }
    admin_key = standing.bootstrap(environment)
    log = stack.enter_context((directory / "tollway.log").open("wb"))
    gateway = stack.enter_context(standing.process("-c", standing.SERVE, environment=environment, output=log))
    url = f"http://127.0.0.1:{port}"
    await standing.wait_for(f"{url}/readyz")
    return url, admin_key, gateway


def _roots_in(directory: Path) -> list[psutil.Process]:
    """Postgres and Valkey, by the directory in their command lines; what they start is found when it is counted."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        if str(directory) in " ".join(process.info["cmdline"] or ()):
            found.append(process)
    return found


async def ask(
    candidate: Candidate, streamed: bool, requests: int, concurrency: int, **fields: object
) -> Times:
    body: dict[str, object] = {
        "model": standing.MODEL,
        "messages": [{"role": "user", "content": standing.PROMPT}],
        "max_tokens": 64,
        **({"stream": True} if streamed else {}),
        **fields,
    }
    request = request_bytes(candidate.url, candidate.key, body)
    return await ask_many(candidate.url, request, requests, concurrency, CLIENT_LIMIT_S)


async def leg(candidate: Candidate, streamed: bool, concurrency: int, number: int) -> Leg:
    before, helped = tree_cpu_s(candidate.roots), tree_cpu_s(candidate.helpers)
    least, each, most = REQUESTS[streamed]
    times = await ask(candidate, streamed, max(least, min(most, each * concurrency)), concurrency)
    spent, helped = tree_cpu_s(candidate.roots) - before, tree_cpu_s(candidate.helpers) - helped
    answered = max(1, len(times.answers))
    return Leg(
        name=candidate.name,
        streamed=streamed,
        concurrency=concurrency,
        round=number,
        requests=len(times.answers),
        failed=times.failed,
        cpu_ms=spent / answered * 1000 if candidate.roots else None,
        helpers_cpu_ms=helped / answered * 1000,
        first_ms=_median([one.first_s * 1000 for one in times.answers]),
        total_ms=_median([one.total_s * 1000 for one in times.answers]),
        wall_s=times.wall_s,
    )


async def compare(options: argparse.Namespace, candidates: Sequence[Candidate]) -> list[Leg]:
    legs = []
    kinds = [(True, c) for c in options.streams] + [(False, c) for c in options.wholes]
    for candidate in candidates:  # whatever is made at the first request
        for streamed in (True, False):
            await ask(candidate, streamed, 32, 8)
    for streamed, concurrency in kinds:
        for number in range(options.rounds):
            for candidate in candidates:
                legs.append(await leg(candidate, streamed, concurrency, number))
        print(
            _table([one for one in legs if (one.streamed, one.concurrency) == (streamed, concurrency)]),
            flush=True,
        )
    return legs


def _table(legs: Sequence[Leg]) -> str:
    """Of one kind of leg: medians over the rounds, with their range."""
    first = legs[0]
    kind = "streams of 64 chunks" if first.streamed else "whole answers"
    lines = [
        f"\n{kind}, {first.concurrency} at once: CPU ms a request (its helpers') · added ms to first byte, to all"
    ]
    direct = {one.round: one for one in legs if one.name == DIRECT}
    for name in dict.fromkeys(one.name for one in legs):
        own = [one for one in legs if one.name == name]
        added_first = [one.first_ms - direct[one.round].first_ms for one in own]
        added_total = [one.total_ms - direct[one.round].total_ms for one in own]
        cpu = [one.cpu_ms for one in own if one.cpu_ms is not None]
        helpers = _median([one.helpers_cpu_ms for one in own])
        failed = sum(one.failed for one in own)
        lines.append(
            f"  {name:12} {_spread(cpu):26} ({helpers:.2f})  {_spread(added_first):26} {_spread(added_total):26}"
            f" {sum(one.requests for one in own)} requests" + (f", {failed} FAILED" if failed else "")
        )
    for other in (BARE, "litellm", "vllm-router"):
        ratios = _ratios(legs, TOLLWAY, other)
        if ratios:
            lines.append(f"  tollway / {other}: {_spread(ratios)} of the CPU")
    return "\n".join(lines)


def _ratios(legs: Sequence[Leg], of: str, to: str) -> list[float]:
    ours = {one.round: one.cpu_ms for one in legs if one.name == of}
    theirs = {one.round: one.cpu_ms for one in legs if one.name == to}
    return [a / b for number in ours if (a := ours[number]) is not None and (b := theirs.get(number))]


async def paced(options: argparse.Namespace, candidates: Sequence[Candidate]) -> list[dict[str, object]]:
    """All streams begin together; a chunk is late when the gap before it is longer than the pace."""
    found: list[dict[str, object]] = []
    for number in range(options.rounds):
        for candidate in candidates:
            pace = options.pace_ms
            before = tree_cpu_s(candidate.roots)
            times = await ask(candidate, True, PACED_STREAMS * 2, PACED_STREAMS, pace_ms=pace)
            spent = tree_cpu_s(candidate.roots) - before
            gaps = sorted(gap * 1000 for one in times.answers for gap in one.gaps)
            p50, p99 = gaps[len(gaps) // 2], gaps[len(gaps) * 99 // 100]
            row: dict[str, object] = {
                "name": candidate.name, "round": number, "pace_ms": pace, "streams": PACED_STREAMS,
                "gap_p50_ms": p50, "gap_p99_ms": p99, "p99_over_pace": p99 / pace,
                "busy": spent / times.wall_s, "failed": times.failed,
            }  # fmt: skip
            found.append(row)
            print(
                f"{candidate.name:12} gap p50 {p50:.1f} ms, p99 {p99:.1f} ms = {p99 / pace:.2f} of the pace;"
                f" {spent / times.wall_s:.2f} cores, {times.failed} failed",
                flush=True,
            )
    return found


async def soak(options: argparse.Namespace, tollway: Candidate) -> list[dict[str, object]]:
    """Resident memory over many requests, every fourth of them streamed (without pauses)."""
    [process] = tollway.roots
    found: list[dict[str, object]] = []
    done = 0
    for _ in range(SOAK_LEGS):
        for streamed in (False, False, False, True):
            share = options.soak // SOAK_LEGS // 4
            while share > 0:
                times = await ask(tollway, streamed, share, SOAK_CONCURRENCY, pace_ms=0)
                assert not times.failed
                share, done = share - len(times.answers), done + len(times.answers)
        found.append({"requests": done, "rss_mb": process.memory_info().rss / 1e6})
        print(f"{done} requests, {found[-1]['rss_mb']:.1f} MB", flush=True)
    half = found[len(found) // 2 :]
    slope = statistics.linear_regression([x["requests"] for x in half], [x["rss_mb"] for x in half]).slope  # type: ignore[misc]
    print(f"second half: {slope * 1000 * 1000:.1f} kB per 1,000 requests")
    return [*found, {"slope_kb_per_1000_requests": slope * 1e6}]


def _median(values: Sequence[float]) -> float:
    return statistics.median(values) if values else float("nan")


def _spread(values: Sequence[float]) -> str:
    return f"{_median(values):.2f} ({min(values):.2f} to {max(values):.2f})" if values else "-"


async def run(options: argparse.Namespace, directory: Path, stack: ExitStack) -> None:
    names = [TOLLWAY] if options.soak else options.only
    candidates = await stand_up(directory, stack, names)
    if options.soak:
        rows = await soak(options, candidates[-1])
    elif options.paced:
        rows = await paced(options, candidates)
    else:
        rows = [asdict(one) for one in await compare(options, candidates)]
    if options.save:
        RESULTS.mkdir(exist_ok=True)
        path = RESULTS / f"{datetime.now(UTC):%Y-%m-%d}-{options.save}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        print(f"written to {path}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    everybody = [BARE, TOLLWAY, *(peer.name for peer in PEERS)]
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", type=lambda text: text.split(","), default=everybody)
    parser.add_argument("--streams", type=_counts, default=[1, 32, 256])
    parser.add_argument("--wholes", type=_counts, default=[1, 32, 256])
    parser.add_argument("--paced", action="store_true")
    parser.add_argument("--pace-ms", type=float, default=20.0)
    parser.add_argument("--soak", type=int, default=0)
    parser.add_argument("--save", default="")
    with tempfile.TemporaryDirectory(prefix="tollway-bench-") as name, ExitStack() as stack:
        directory = Path(name)
        directory.chmod(0o711)
        asyncio.run(run(parser.parse_args(), directory, stack))


def _counts(text: str) -> list[int]:
    return [int(part) for part in text.split(",") if part]


if __name__ == "__main__":
    main()
