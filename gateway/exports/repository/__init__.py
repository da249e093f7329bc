"""All SQL of the exports."""
