"""All SQL of the ledger, one file per unit of work. Rows go in sets: one statement per table and batch.

Every function works on a connection inside a transaction that its caller opened. None of them decides anything.
"""
