"""Exports: closed periods of the ledger as files that never change. Reads the ledger and nothing of the request path."""
