"""What operators see: structured logs and metrics. Knows no tenant beyond its id, and never a prompt or a key."""
