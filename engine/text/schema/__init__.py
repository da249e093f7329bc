"""From JSON schemas and regular expressions to grammars in EBNF, so that what a model may say is ours to define.

Each part either says exactly what it supports or a subset of it, never more: an answer that follows the grammar is
valid. What cannot be said so is refused by name. Knows no tokens and no compiler.
"""

from engine.text.schema.grammar import schema_grammar
from engine.text.schema.keywords import SchemaError
from engine.text.schema.regex import RegexError, regex_grammar

__all__ = ["RegexError", "SchemaError", "regex_grammar", "schema_grammar"]
