"""The tree as the tidy tests see it: which Python files exist and what each of them imports."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = ("engine", "gateway", "kernels", "migrations", "workbench")


@dataclass(frozen=True, slots=True)
class Import:
    """One import statement: the dotted module it names and where it stands."""

    module: str
    line: int
    typing_only: bool
    """Inside `if TYPE_CHECKING:`: no dependency at run time."""


@dataclass(frozen=True, eq=False)
class Source:
    """One Python file of the product. What many rules ask of it is found once."""

    path: Path
    tree: ast.Module

    @cached_property
    def module(self) -> str:
        parts = self.path.relative_to(ROOT).with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        return tuple(ast.walk(self.tree))

    @cached_property
    def imports(self) -> tuple[Import, ...]:
        """Every import of the file, at any depth; `from a import b` counts as `a.b`."""
        return tuple(self._find_imports())

    @cached_property
    def functions(self) -> tuple[ast.FunctionDef | ast.AsyncFunctionDef, ...]:
        return tuple(node for node in self.nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))

    def _find_imports(self) -> Iterator[Import]:
        typing_only = _typing_only_lines(self.nodes)
        for node in self.nodes:
            if isinstance(node, ast.Import):
                for name in node.names:
                    yield Import(name.name, node.lineno, node.lineno in typing_only)
            elif isinstance(node, ast.ImportFrom):
                base = self._absolute(node)
                for name in node.names:
                    yield Import(f"{base}.{name.name}", node.lineno, node.lineno in typing_only)

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
    return tuple(_source(path) for path in paths)


@cache
def _source(path: Path) -> Source:
    return Source(path, ast.parse(path.read_text(encoding="utf-8"), str(path)))


def _typing_only_lines(nodes: tuple[ast.AST, ...]) -> set[int]:
    lines: set[int] = set()
    for node in nodes:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            for child in node.body:
                lines.update(range(child.lineno, (child.end_lineno or child.lineno) + 1))
    return lines
