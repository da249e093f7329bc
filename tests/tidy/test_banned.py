"""Calls that are not used here, each with what to use instead."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

from tests.tidy.tree import ROOT, Source, sources


@dataclass(frozen=True)
class Ban:
    """`call` is a regular expression over the dotted name of a called function."""

    call: str
    where: tuple[str, ...]
    instead: str
    homes: tuple[str, ...] = ()


BANS = (
    Ban(r"time\.(time|monotonic|perf_counter)(_ns)?", ("gateway", "engine/core"), "take a Clock",
        ("gateway/clock.py",)),
    Ban(r"(datetime\.)?datetime\.(now|utcnow|today)", ("gateway", "engine"), "take a Clock", ("gateway/clock.py",)),
    Ban(r"uuid\.uuid\d|uuid4|uuid1", ("gateway", "engine/core"), "gateway.ids", ("gateway/ids.py",)),
    Ban(r"random\.\w+|secrets\.\w+|os\.urandom", ("gateway", "engine/core"), "randomness passed in, or gateway.ids",
        ("gateway/ids.py", "gateway/local")),
    Ban(r"print", ("gateway", "engine", "kernels", "workbench"), "gateway.obs.logging, or rich's console in a command",
        ("gateway/cli.py", "gateway/commands", "gateway/local", "engine/bench", "engine/__main__.py", "kernels/bench.py")),
    Ban(r"triton\.autotune", ("kernels", "engine"), "a committed tuning table: nothing is tuned at run time"),
    Ban(r"torch\.compile", ("kernels", "engine"), "graphs and kernels: compile costs a minute at every start"),
    Ban(r"eval|exec", ("gateway", "engine", "kernels", "workbench"), "a parser"),
    Ban(r"os\.system|os\.popen", ("gateway", "engine", "kernels", "workbench"), "subprocess with a list of arguments"),
    Ban(
        r"(requests|httpx)\.(get|post|put|patch|delete|request|Client|Session)|urllib\.request\.\w+",
        ("gateway", "engine", "workbench"), "gateway.upstream.client (aiohttp)", ("engine/bench",),
    ),
)  # fmt: skip

# The edges where any exception must become one answer, one log line and one count.
BROAD_EXCEPT_HOMES = (
    "gateway/http/",
    "gateway/pool/supervisor.py",
    "gateway/worker.py",
    "gateway/ledger/batcher.py",
    "gateway/ledger/settler.py",
    "gateway/tenancy/revision.py",
    "gateway/batches/runner.py",
    "engine/server/",
    "engine/process.py",
    "engine/core/loop.py",
)
MONEY = ("gateway/ledger", "gateway/exports", "gateway/money.py")


def test_banned_calls() -> None:
    """Duty engine-8: neither compiler nor tuner, among other calls."""
    broken = []
    for source in sources():
        for node in source.nodes:
            if isinstance(node, ast.Call):
                broken += _verdicts(source, node)
    assert not broken, "\n".join(broken)


def test_broad_except_only_at_the_edges() -> None:
    broken = [
        f"{_name(source)}:{node.lineno}: catch what you can handle; only the edges catch everything"
        for source in sources()
        for node in source.nodes
        if isinstance(node, ast.ExceptHandler) and _is_broad(node) and not _reraises(node)
        if not _name(source).startswith(BROAD_EXCEPT_HOMES)
    ]
    assert not broken, "\n".join(broken)


def test_no_float_where_money_is() -> None:
    broken = [
        f"{_name(source)}:{node.lineno}: money is an integer of nano-USD (money.py); a duration in seconds needs a "
        "name that ends in _s"
        for source in sources()
        if _name(source).startswith(MONEY)
        for node in source.nodes
        if _is_float(node) and not _is_duration(source, node)
    ]
    assert not broken, "\n".join(broken)


def test_nothing_is_left_undone() -> None:
    words = re.compile(r"\b(TODO|FIXME|XXX)\b|NotImplementedError|pragma: no cover")
    left = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for top in ("engine", "gateway", "kernels", "migrations", "tests")
        for path in sorted((ROOT / top).rglob("*.py"))
        if path.parent.name != "tidy"
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if words.search(line)
    ]
    assert not left, "\n".join(left)


def test_every_silenced_type_says_why() -> None:
    silenced = [
        f"{_name(source)}:{number}: {line.strip()}"
        for source in sources()
        for number, line in enumerate(source.path.read_text(encoding="utf-8").splitlines(), 1)
        if re.search(r"# type: ignore(?!\[[\w,-]+\]\s+#|\[[\w,-]+\]\s*—)", line)
    ]
    assert not silenced, "write `# type: ignore[code]  # why`:\n" + "\n".join(silenced)


def test_no_mutable_state_in_modules() -> None:
    broken = []
    for source in sources():
        for node in source.nodes:
            if isinstance(node, ast.Global):
                broken.append(
                    f"{_name(source)}:{node.lineno}: `global {', '.join(node.names)}`: pass the state in"
                )
    assert not broken, "\n".join(broken)


def _verdicts(source: Source, node: ast.Call) -> list[str]:
    called = ast.unparse(node.func)
    name = _name(source)
    return [
        f"{name}:{node.lineno}: {called}() is not used here: {ban.instead}"
        for ban in BANS
        if name.startswith(ban.where)
        and not name.startswith(ban.homes or ("\0",))
        and re.fullmatch(ban.call, called)
    ]


def _is_broad(node: ast.ExceptHandler) -> bool:
    return node.type is None or re.fullmatch(r"(Base)?Exception", ast.unparse(node.type)) is not None


def _reraises(node: ast.ExceptHandler) -> bool:
    return any(isinstance(child, ast.Raise) for child in ast.walk(node))


def _is_float(node: ast.AST) -> bool:
    if isinstance(node, ast.Constant):
        return isinstance(node.value, float)
    return isinstance(node, ast.Name) and node.id == "float"


def _is_duration(source: Source, node: ast.AST) -> bool:
    """A float on a line that names a duration (`…_s`), a rate or a clock is no money."""
    line = source.path.read_text(encoding="utf-8").splitlines()[node.lineno - 1]  # type: ignore[attr-defined]  # an expression node
    return re.search(r"\w+_s\b|_ms\b|monotonic", line, re.IGNORECASE) is not None


def _name(source: Source) -> str:
    return str(source.path.relative_to(ROOT))
