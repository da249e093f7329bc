"""Where a served name leads."""
