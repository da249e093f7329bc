"""The ledger's fixtures."""

from tests.gateway.books import books, make_ledger

__all__ = ["books", "make_ledger"]
