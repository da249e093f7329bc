"""Benchmarks of the engine: serving over HTTP, and the core's bookkeeping by itself."""
