"""Rolling upgrades under constant load, on the real stack."""
