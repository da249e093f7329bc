"""Bookkeeping of the engine: requests, blocks, prefix cache, scheduling. Pure Python, no tensors."""
