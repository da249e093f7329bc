"""SQL of reconciliation: journals as they were read, how far the ledger is from them, what a person must see."""
