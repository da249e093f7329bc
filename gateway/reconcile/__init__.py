"""Journals and holds: evidence becomes settlements."""
