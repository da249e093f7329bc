"""All SQL of objectives, by what it is about."""
