"""All SQL of alerts, by what it is about."""
