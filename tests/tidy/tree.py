"""The tree as the tidy tests see it: which Python files exist and what each of them imports."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = ("engine", "gateway", "kernels", "migrations")


@dataclass(frozen=True, slots=True)
class Import:
    """One import statement: the dotted module it names and where it stands."""

    module: str
    line: int
    typing_only: bool
    """Inside `if TYPE_CHECKING:`: no dependency at run time."""


@dataclass(frozen=True, slots=True)
class Source:
    """One Python file of the product."""

    path: Path
    tree: ast.Module

    @property
    def module(self) -> str:
        parts = self.path.relative_to(ROOT).with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    def imports(self) -> Iterator[Import]:
        """Every import of the file, at any depth; `from a import b` counts as `a.b`."""
        typing_only = _typing_only_lines(self.tree)
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                for name in node.names:
                    yield Import(name.name, node.lineno, node.lineno in typing_only)
            elif isinstance(node, ast.ImportFrom):
                base = self._absolute(node)
                for name in node.names:
                    yield Import(f"{base}.{name.name}", node.lineno, node.lineno in typing_only)

    def functions(self) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
        for node in ast.walk(self.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield node

    def _absolute(self, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        package = self.path.relative_to(ROOT).parent.parts
        base = package[: len(package) - node.level + 1]
        return ".".join((*base, *([node.module] if node.module else [])))


@cache
def sources(*tops: str) -> tuple[Source, ...]:
    """All Python files under the given top folders (default: the product), in a stable order."""
    paths = sorted(path for top in tops or PRODUCT for path in (ROOT / top).rglob("*.py"))
    return tuple(Source(path, ast.parse(path.read_text(encoding="utf-8"), str(path))) for path in paths)


def _typing_only_lines(tree: ast.Module) -> set[int]:
    lines: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            for child in node.body:
                lines.update(range(child.lineno, (child.end_lineno or child.lineno) + 1))
    return lines
