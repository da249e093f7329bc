"""Structured output: grammars compiled beside the core process, and each row's place in its own.

Lives in the core process. `desk` holds a request back until `compiler` has its grammar from a child of
`compile_process`; `rows` is what the samplers ask which tokens may follow. xgrammar is imported when the first
grammar arrives, in a thread. Knows no HTTP and no schedule.
"""
