"""Other gateways to measure beside ours: each in a virtual environment of its own, made once in a cache directory.

They are no dependency of the product; their versions are pinned here. Knows how each is installed, configured for one
upstream and started, not what is measured.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

__all__ = ["PEERS", "Peer", "default_cache", "served", "tree_cpu_s"]

LITELLM_KEY = "sk-bench"
STOP_S = 20
_CLOCK_OF_PROCESS = 2
"""Linux: the clock of what all threads of a process have run, in the low bits of its clock's number."""


@dataclass(frozen=True, slots=True)
class Peer:
    name: str
    requirement: str
    key: str
    ready_path: str
    command: Callable[[Path, Path, str, str, int], Sequence[str]]
    """(environment's bin, work directory, upstream URL, model, port) → what to run."""


def _litellm(bin: Path, work: Path, upstream_url: str, model: str, port: int) -> Sequence[str]:
    """With its key check on, without a database: the least that it does."""
    engine = {"model": "openai/bench", "api_base": f"{upstream_url}/v1", "api_key": "none"}
    config = {
        "model_list": [{"model_name": model, "litellm_params": engine}],
        "general_settings": {"master_key": LITELLM_KEY},
        "litellm_settings": {"telemetry": False},
    }
    path = work / "litellm.yaml"
    path.write_text(json.dumps(config))  # JSON is YAML
    where = ["--host", "127.0.0.1", "--port", str(port), "--num_workers", "1"]
    return [str(bin / "litellm"), "--config", str(path), *where]


def _vllm_router(bin: Path, work: Path, upstream_url: str, model: str, port: int) -> Sequence[str]:
    where = ["--host", "127.0.0.1", "--port", str(port), "--worker-urls", upstream_url]
    return [str(bin / "vllm-router"), *where, "--policy", "round_robin", "--log-level", "error"]


PEERS = (
    Peer("litellm", "litellm[proxy]==1.108.7", LITELLM_KEY, "/health/liveliness", _litellm),
    Peer("vllm-router", "vllm-router==0.1.17", "none", "/health", _vllm_router),
)


def default_cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "tollway-bench"


def installed(peer: Peer, cache: Path) -> Path:
    """The `bin` of its environment. The stamp is written last, so that a broken installation is made anew."""
    home = cache / peer.requirement.translate(str.maketrans("[]=", "---"))
    stamp = home / ".complete"
    if not stamp.exists():
        print(f"installing {peer.requirement} into {home}", flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(home)], check=True)
        pip = [str(home / "bin" / "pip"), "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, peer.requirement], check=True, stderr=subprocess.DEVNULL)
        stamp.touch()
    return home / "bin"


@contextmanager
def served(
    peer: Peer, cache: Path, work: Path, upstream_url: str, model: str, port: int
) -> Iterator[psutil.Process]:
    """Running, though perhaps not ready yet. What it says goes to a file in `work`."""
    command = peer.command(installed(peer, cache), work, upstream_url, model, port)
    quiet = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_LOG": "ERROR", "NO_COLOR": "1"}
    with (work / f"{peer.name}.log").open("wb") as log:
        child = subprocess.Popen(command, env={**os.environ, **quiet}, stdout=log, stderr=log, cwd=work)
        process = psutil.Process(child.pid)
        try:
            yield process
        finally:
            children = process.children(recursive=True) if child.poll() is None else []
            child.terminate()
            try:
                child.wait(STOP_S)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
            for left in children:
                if left.is_running():
                    left.kill()


def tree_cpu_s(roots: Sequence[psutil.Process]) -> float:
    """Processor time of these processes and all that they started, as of now, by the kernel's own clock of each: the
    ticks that /proc counts are 10 ms long, as much as a few requests take."""
    every = {child.pid for root in roots for child in (root, *root.children(recursive=True))}
    total = 0.0
    for pid in every:
        with suppress(OSError):  # it has ended
            total += time.clock_gettime((~pid << 3) | _CLOCK_OF_PROCESS)
    return total
