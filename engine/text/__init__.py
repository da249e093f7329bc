"""Text on both sides of the tokens: tokenizer, chat template, incremental detokeniser, stop strings.

Used by the API processes. Imports neither torch nor transformers, and knows nothing of HTTP or of the core.
"""
