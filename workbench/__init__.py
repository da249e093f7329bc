"""An operator's tools beside the running system: capacity planning and serving benchmarks.

Above the engine and beside the gateway: neither imports it but for the command line. Knows servers by their URLs and
models by their files.
"""
