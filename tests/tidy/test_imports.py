"""Who may import whom (ARCHITECTURE.md, "Who may import whom"). A failure prints the reason."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass

from tests.tidy.tree import ROOT, Import, Source, sources

TORCH = ("torch", "triton")
WEB = ("fastapi", "starlette")
SQL = ("sqlalchemy", "asyncpg", "redis", "valkey")


@dataclass(frozen=True)
class Rule:
    """Files whose module starts with one of `who` must not import `banned` (prefixes), but for `allowed`."""

    who: tuple[str, ...]
    banned: tuple[str, ...]
    reason: str
    allowed: tuple[str, ...] = ()
    except_who: tuple[str, ...] = ()

    def breaks(self, source: Source, found: Import) -> bool:
        return (
            _under(source.module, self.who)
            and not _under(source.module, self.except_who)
            and _under(found.module, self.banned)
            and not _under(found.module, self.allowed)
        )


RULES = (
    Rule(
        ("kernels",),
        ("engine", "gateway", "transformers", *WEB, *SQL),
        "kernels know tensors and nothing else",
    ),
    Rule(("engine",), ("gateway", "migrations", *SQL), "the engine knows no tenants, prices or databases"),
    Rule(
        ("engine", "gateway", "kernels", "migrations", "workbench"),
        ("transformers", "httpx", "httpx2"),
        "transformers costs seconds and loads torch; the httpx family is too slow for the data path",
    ),
    Rule(
        ("engine.core",),
        ("engine", "kernels", "numpy", *TORCH, *WEB, "zmq", "time", "random", "uuid"),
        "bookkeeping never touches tensors, clocks or sockets: standard library and messages only",
        allowed=("engine.core", "engine.messages"),
    ),
    Rule(
        ("engine.text",),
        ("engine", "kernels", *TORCH, *WEB),
        "text handling runs in the API process, where torch must not load",
        allowed=("engine.text", "engine.gguf", "engine.config"),
    ),
    Rule(
        ("engine.server",),
        ("engine", "kernels", *TORCH),
        "the API process holds no tensors: messages, config, text only",
        allowed=(
            *("engine.server", "engine.messages", "engine.config", "engine.text", "engine.gguf"),
            "engine.__version__",
        ),
    ),
    Rule(("engine",), WEB, "only the engine's HTTP edge speaks HTTP", except_who=("engine.server",)),
    Rule(
        ("engine.models", "engine.layers"),
        ("engine.core.scheduler", "engine.core.loop"),
        "models know no schedule",
    ),
    Rule(("gateway",), ("engine", "kernels", *TORCH), "two deployables talk HTTP only"),
    Rule(
        ("gateway", "engine", "kernels", "migrations"),
        ("workbench",),
        "the running system does not know an operator's tools; the command line starts them",
        except_who=("gateway.commands",),
    ),
    Rule(
        ("workbench",),
        ("gateway", "engine", "kernels", "migrations", *TORCH, *WEB, *SQL),
        "tools know servers by URLs and models by files; of the engine they share what reads and measures both",
        allowed=("engine.bench.client", "engine.bench.stats", "engine.bench.workload", "engine.gguf"),
    ),
    Rule(
        ("gateway",),
        WEB,
        "only the edge imports the web framework",
        except_who=("gateway.http", "gateway.app"),
    ),
    Rule(
        ("migrations",),
        ("gateway",),
        "migrations see models and settings only",
        allowed=("gateway.settings", "gateway.db"),
    ),
)

# Inside gateway, downwards only; packages on one line are siblings and do not import each other.
LAYERS = (
    ("cli", "commands", "checks", "admin_client", "__main__", "local", "serving", "exporting", "rotation", "app", "worker", "migrate"),
    ("http",),
    ("pipeline", "exports", "alerts", "batches", "live"),
    ("exchange", "reconcile", "retention", "sessions", "slo"),
    ("limits", "routing", "upstream", "pool"),
    ("tenancy",),
    ("audit",),
    ("ledger", "idempotency"),
    ("wire", "obs", "blobs", "events"),
    ("db", "db_errors", "cache", "settings", "errors", "money", "ids", "clock", "keyring"),
)  # fmt: skip
SIBLINGS_ALLOWED = {
    ("pool", "upstream"),
    ("routing", "pool"),
}
FREE_ROWS = (0, len(LAYERS) - 1)  # the composition roots may start each other; the leaves may use each other
SQL_HOMES = ("models", "repository", "db", "db_errors", "cache", "migrate", "limits", "local")


def test_table() -> None:
    broken = [
        f"{source.path.relative_to(ROOT)}:{found.line} imports {found.module}: {rule.reason}"
        for source in sources()
        for found in source.imports
        for rule in RULES
        if not found.typing_only and rule.breaks(source, found) and not _is_model_import(source, found)
    ]
    assert not broken, "\n".join(broken)


def test_gateway_layers_point_downwards() -> None:
    broken = []
    for source in sources("gateway"):
        for found in source.imports:
            verdict = _layer_verdict(_gateway_part(source.module), _gateway_part(found.module))
            if verdict and not _is_models(found.module):
                broken.append(
                    f"{source.path.relative_to(ROOT)}:{found.line} imports {found.module}: {verdict}"
                )
    assert not broken, "\n".join(broken)


def test_database_and_cache_drivers_stay_in_their_homes() -> None:
    broken = [
        f"{source.path.relative_to(ROOT)}:{found.line} imports {found.module}: SQL and Redis live in "
        "models.py, repository.py, db.py, cache.py and limits/"
        for source in sources("gateway")
        for found in source.imports
        if _under(found.module, SQL) and not set(source.module.split(".")) & set(SQL_HOMES)
    ]
    assert not broken, "\n".join(broken)


def test_importing_a_module_does_nothing() -> None:
    """In one fresh interpreter: no thread, no socket, no child, no output, no changed warning filters."""
    names = [source.module for source in sources() if not source.module.endswith("__main__")]
    names = [
        name for name in names if not name.startswith("migrations")
    ]  # alembic runs these; env.py acts by design
    script = f"""
import importlib, os, socket, subprocess, sys, threading
import torch, numpy  # their own start-up is not ours
def refuse(*a, **k): raise AssertionError("import opens a socket or starts a process")
socket.socket.connect = socket.socket.bind = refuse
subprocess.Popen.__init__ = refuse
before = threading.active_count(), os.getcwd(), len(sys.path)
for name in {names!r}:
    importlib.import_module(name)
assert (threading.active_count(), os.getcwd(), len(sys.path)) == before
"""
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""


def test_api_process_never_loads_torch() -> None:
    names = [
        s.module
        for s in sources("engine")
        if _under(s.module, ("engine.server", "engine.text", "engine.core"))
    ]
    script = f"""
import importlib, sys
for name in {names!r}:
    importlib.import_module(name)
loaded = [name for name in ("torch", "triton", "transformers", "xgrammar") if name in sys.modules]
assert not loaded, loaded
"""
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr


def _layer_verdict(importer: str | None, imported: str | None) -> str | None:
    if importer is None or imported is None or importer == imported:
        return None
    row, target = _row(importer), _row(imported)
    if target < row:
        return f"{imported} is above {importer}: dependencies point downwards"
    if target == row and row not in FREE_ROWS and (importer, imported) not in SIBLINGS_ALLOWED:
        return f"{imported} is a sibling of {importer}: siblings meet in the pipeline"
    return None


def _row(part: str) -> int:
    for number, names in enumerate(LAYERS):
        if part in names:
            return number
    raise AssertionError(f"gateway/{part} has no place in the layers: name it in tests/tidy/test_imports.py")


def _gateway_part(module: str) -> str | None:
    parts = module.split(".")
    return parts[1] if parts[0] == "gateway" and len(parts) > 1 and _is_part(parts[1]) else None


def _is_part(name: str) -> bool:
    return (ROOT / "gateway" / name).is_dir() or (ROOT / "gateway" / f"{name}.py").is_file()


def _is_models(module: str) -> bool:
    return "models" in module.split(".")


def _is_model_import(source: Source, found: Import) -> bool:
    return source.module.startswith("migrations") and _is_models(found.module)


def _under(module: str, prefixes: tuple[str, ...]) -> bool:
    return any(module == prefix or module.startswith(prefix + ".") for prefix in prefixes)
