"""Writes docs/api-reference.md from the committed descriptions of both APIs: `python -m scripts.api_reference`.

Place: a reader's way into docs/openapi.json and docs/engine-openapi.json, which have every field. One line per operation.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

__all__ = ["PAGE", "render"]

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/api-reference.md"
PARTS = (
    (
        "Gateway",
        "openapi.json",
        "`GET /v1/organization/…` and its siblings are the operator's; the others a project's.",
    ),
    (
        "Engine",
        "engine-openapi.json",
        "What an engine answers by itself; `/internal/…` needs the internal key.",
    ),
)
HEAD = """# API reference

Written from [openapi.json](openapi.json) and [engine-openapi.json](engine-openapi.json), which have every field, by
`python -m scripts.api_reference`. Generate clients from those files. How to use it: [user-guide.md](user-guide.md),
[admin-api.md](admin-api.md), [engine-api.md](engine-api.md).
"""


def render() -> str:
    return HEAD + "".join(_part(*part) for part in PARTS)


def _part(title: str, name: str, about: str) -> str:
    document = json.loads((ROOT / "docs" / name).read_text(encoding="utf-8"))
    rows = "\n".join(_rows(document))
    return f"\n## {title}\n\n{about}\n\n| | takes | gives | |\n|---|---|---|---|\n{rows}\n"


def _rows(document: dict[str, Any]) -> Iterator[str]:
    for path, operations in sorted(document["paths"].items()):
        for method, operation in operations.items():
            good = next((one for code, one in operation["responses"].items() if code.startswith("2")), {})
            summary = str(operation.get("summary", "")).replace("|", "\\|")
            taken, given = _content(operation.get("requestBody", {})), _content(good)
            yield f"| `{method.upper()} {path}` | {taken} | {given} | {summary} |"


def _content(one: dict[str, Any]) -> str:
    """The names of its shapes, or the media type of what has none."""
    found = []
    for kind, content in one.get("content", {}).items():
        schema = content.get("schema", {})
        name = schema.get("$ref", "").rpartition("/")[2] or schema.get("title", "")
        found.append(f"`{name}`" if name else kind)
    return ", ".join(dict.fromkeys(found))


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
