"""A grammar of a request together with what the compiler made of it.

The desk puts it in the place of the request's `GrammarSpec`, the core carries it untouched to the runner, and it
lives as long as the request does. It never leaves the core process.
"""

from __future__ import annotations

from typing import Any

from engine.messages import GrammarSpec


class BoundGrammar(GrammarSpec, frozen=True):
    """`compiled` is an xgrammar.CompiledGrammar; many requests may share one."""

    compiled: Any = None
