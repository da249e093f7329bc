"""The engine's API process: HTTP on one side, messages to and from the core on the other.

Knows requests, text and usage; knows no schedule, no tensors and no tenants.
"""
