"""A stand-in for the engine package, found only when its directory is on PYTHONPATH."""
