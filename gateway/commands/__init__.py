"""The commands of `tollway`, one module per group: argument parsing and nothing else.

`gateway.cli` gathers them. Each imports what it runs when it runs.
"""
