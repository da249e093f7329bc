"""The runner: executes the core's schedules with torch, on the CPU or a GPU.

Place in the path: engine.core → here → engine.models → kernels. `load.build_runner` is the way in.
Knows rows and pages; knows no requests, queues or text.
"""
