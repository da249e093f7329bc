"""One gateway before three real engines, under a load whose answers are known: what a lost replica may not do."""
