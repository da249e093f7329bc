"""Tool calls in a model's text: one incremental parser per format, and what a forced call must look like.

`formats` names the formats and chooses one for a template; `parser` runs a format over text in any chunking.
Pure: no I/O, no clock, no randomness, so an answer can be replayed. Knows no HTTP and no tokens.
"""
