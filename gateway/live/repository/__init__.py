"""All SQL of the live pages: marks of change, the overview, search."""
