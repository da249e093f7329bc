"""The committed build: made from the committed sources, small enough, split by page.

Where there are node and a registry of its packages it is built anew, and has to come out the same, byte for byte. A machine
with Python alone has the digest of the sources, which says as much of everything but the build itself.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from gateway.http.console import DIST
from scripts.console_types import TYPES

ROOT = Path(__file__).parents[2]
UI = ROOT / "admin_ui"
SOURCES = (
    "index.html",
    "package-lock.json",
    "package.json",
    "public",
    "src",
    "tsconfig.json",
    "vite.config.ts",
)
"""As vite.config.ts has them: both make the same digest, of all but the types, which leave nothing in the build."""

FIRST_LOAD_BYTES_MAX = 300 * 1024
"""Script, compressed, before anything is shown: the frame and the page's own chunk."""
CHUNK_BYTES_MAX = 60 * 1024
CHUNKS_MIN = 10
NODE_MIN = 20
INSTALL_TIMEOUT_S = 240
BUILD_TIMEOUT_S = 600
_STATIC = re.compile(r"""(?:import|from)\s*["']\./([\w.-]+\.js)["']""")
_LAZY = re.compile(r"""import\(\s*["'`]\./([\w.-]+\.js)["'`]\s*\)""")


def _files(path: Path) -> list[Path]:
    return [one for one in path.rglob("*") if one.is_file()] if path.is_dir() else [path]


def _digest() -> str:
    files = [file for name in SOURCES for file in _files(UI / name) if file != TYPES]
    names = sorted((file.relative_to(UI).as_posix(), file) for file in files)
    lines = (f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {name}\n" for name, file in names)
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _packed(path: Path) -> int:
    return len(gzip.compress(path.read_bytes(), mtime=0))


def _reached(names: set[str]) -> set[str]:
    """These scripts and all that they import at once."""
    found: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += _STATIC.findall((DIST / "assets" / name).read_text())
    return found


def _entry() -> set[str]:
    page = (DIST / "index.html").read_text()
    return set(re.findall(r'(?:src|href)="/console/assets/([\w.-]+\.js)"', page))


def test_is_built_from_these_sources() -> None:
    assert (DIST / "sources.sha256").read_text().strip() == _digest(), (
        "the console's sources have changed: run `make console` and commit gateway/http/console/dist"
    )


def _installed(folder: Path) -> bool:
    """The packages of the lock file, in there: False where node is missing or too old, or the registry does not answer."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        return False
    version = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout
    if int((re.match(r"v(\d+)", version) or ["", "0"])[1]) < NODE_MIN:
        return False
    command = [npm, "ci", "--ignore-scripts", "--prefer-offline", "--no-audit", "--no-fund"]
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, check=False, timeout=INSTALL_TIMEOUT_S
        )
    except subprocess.TimeoutExpired:
        return False
    print(done.stderr)
    return done.returncode == 0


def _contents(folder: Path) -> dict[str, bytes]:
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in _files(folder)}


def test_a_build_of_these_sources_is_what_is_committed(tmp_path: Path) -> None:
    """In a copy, so that nothing is left here. `npm ci` refuses what the lock file does not fix, and the lock file's own
    tests are below: where it does not succeed it is the machine that has no registry."""
    copy = tmp_path / "admin_ui"
    shutil.copytree(UI, copy, ignore=shutil.ignore_patterns("node_modules", "shots"))
    built = tmp_path / DIST.relative_to(ROOT)
    if not _installed(copy):
        assert (DIST / "sources.sha256").read_text().strip() == _digest()
        return
    done = subprocess.run(
        ["npm", "run", "build"],
        cwd=copy,
        capture_output=True,
        text=True,
        check=False,
        timeout=BUILD_TIMEOUT_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    ours, theirs = _contents(DIST), _contents(built)
    differing = sorted(name for name in {*ours, *theirs} if ours.get(name) != theirs.get(name))
    assert not differing, f"the committed build is not that of the sources: run `make console`. {differing}"


def test_first_load_is_small() -> None:
    entry = _reached(_entry())
    lazy = {name for script in entry for name in _LAZY.findall((DIST / "assets" / script).read_text())}
    assert entry
    assert len(lazy) >= CHUNKS_MIN, "pages are chunks of their own"
    frame = sum(_packed(DIST / "assets" / name) for name in entry) + _packed(DIST / "theme.js")
    for name in sorted(lazy):
        own = sum(_packed(DIST / "assets" / one) for one in _reached({name}) - entry)
        assert own <= CHUNK_BYTES_MAX, f"{name} and what it imports: {own} bytes"
        assert frame + own <= FIRST_LOAD_BYTES_MAX, (
            f"{name}: {frame + own} bytes of script before it is shown"
        )


def test_holds_nothing_that_does_not_belong() -> None:
    names = [path.name for path in _files(DIST)]
    assert not [name for name in names if name.endswith(".map")]
    for path in _files(DIST / "assets"):
        text = path.read_text()
        assert "sourceMappingURL" not in text, path.name
        assert str(ROOT) not in text, path.name


def _places(asker: str, wanted: str) -> list[str]:
    """Where node looks for a package that another asks for, nearest first."""
    parts = asker.split("/node_modules/") if asker else []
    above = ["/node_modules/".join(parts[:depth]) for depth in range(len(parts), 0, -1)]
    return [*(f"{one}/node_modules/{wanted}" for one in above), f"node_modules/{wanted}"]


@pytest.mark.parametrize("folder", [UI, ROOT / "tests/console/browser"], ids=["console", "browser"])
def test_lock_file_holds_all_that_it_asks_for(folder: Path) -> None:
    """`npm ci` refuses one that does not, even for want of what another system alone would install."""
    packages = json.loads((folder / "package-lock.json").read_text())["packages"]
    missing = [
        f"{asker or folder.name} asks for {wanted}"
        for asker, package in packages.items()
        for kind in ("dependencies", "devDependencies", "optionalDependencies")
        for wanted in package.get(kind, {})
        if not any(place in packages for place in _places(asker, wanted))
    ]
    assert packages
    assert not missing


def test_lock_file_names_no_registry() -> None:
    lock = json.loads((UI / "package-lock.json").read_text())
    assert lock["packages"]
    assert not [name for name, package in lock["packages"].items() if "resolved" in package]
