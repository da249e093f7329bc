"""Money truth: reserve, settle, release."""
