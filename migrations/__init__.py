"""Schema revisions: numbered without gaps, one head, expand before contract. Run by `gateway.migrate`."""
