"""The console's files, as a browser takes them: `/console/…`, with the one page for every address that is no file.

Place: beside the API at the edge; the files are built by `make console` into `dist` and are part of the package. It
knows nothing of what they do: they are a client of the admin API like any other.
"""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import dataclass
from pathlib import Path

from gateway.errors import MethodNotAllowed, UnknownUrl
from gateway.http.call import Call
from gateway.http.security import CONSOLE_HEADERS

__all__ = ["DIST", "PREFIX", "ConsoleFiles"]

PREFIX = "/console"
DIST = Path(__file__).with_name("dist")
ASSETS = "assets/"
"""Their names hold a digest of their content: what has a name once never changes."""

_PAGE = "index.html"
_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".woff2": "font/woff2",
}
_PACKED = frozenset({".css", ".html", ".js", ".svg"})


@dataclass(frozen=True, slots=True)
class _File:
    content: bytes
    packed: bytes | None
    """By gzip, where that is worth it."""
    tag: str
    type: str


class ConsoleFiles:
    """Reads a file when it is first asked for and keeps it: together they are about a megabyte."""

    def __init__(self, dist: Path = DIST) -> None:
        self._paths = {
            path.relative_to(dist).as_posix(): path for path in dist.rglob("*") if path.suffix in _TYPES
        }
        self._read: dict[str, _File] = {}

    async def __call__(self, call: Call) -> None:
        if call.method not in ("GET", "HEAD"):
            raise MethodNotAllowed(call.method, call.path, "GET, HEAD")
        if call.path in ("/", PREFIX):
            await call.answer(307, {"location": f"{PREFIX}/"}, b"")
            return
        name = call.path.removeprefix(f"{PREFIX}/")
        if name not in self._paths:
            if name.startswith(ASSETS) or _PAGE not in self._paths:
                raise UnknownUrl(call.method, call.path)
            name = _PAGE
        await self._answer(call, name, self._file(name))

    def _file(self, name: str) -> _File:
        found = self._read.get(name)
        if found is None:
            path = self._paths[name]
            content = path.read_bytes()
            packed = gzip.compress(content, mtime=0) if path.suffix in _PACKED else None
            tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
            found = self._read[name] = _File(content, packed, tag, _TYPES[path.suffix])
        return found

    async def _answer(self, call: Call, name: str, file: _File) -> None:
        is_fixed = name.startswith(ASSETS)
        headers = {
            "cache-control": "public, max-age=31536000, immutable" if is_fixed else "no-cache",
            "etag": file.tag,
            "vary": "accept-encoding",
            **CONSOLE_HEADERS,
        }
        known = call.header(b"if-none-match") or ""
        if file.tag in [tag.strip().removeprefix("W/") for tag in known.split(",")]:
            await call.answer(304, headers, b"")
            return
        headers["content-type"] = file.type
        content = file.content
        if file.packed is not None and _takes_gzip(call.header(b"accept-encoding") or ""):
            headers["content-encoding"] = "gzip"
            content = file.packed
        await call.answer(200, headers, content)


def _takes_gzip(accepted: str) -> bool:
    for part in accepted.split(","):
        coding, _, weight = part.strip().partition(";")
        if coding.strip().lower() in ("gzip", "*"):
            return weight.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False
