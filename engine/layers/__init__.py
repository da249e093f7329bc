"""Building blocks of the decoder definitions: batch type, attention, linear, norm, rope, mlp, embedding.

Between `engine.models` (which composes these) and `kernels` (which computes). Knows tensors and weights;
knows no requests, no scheduling and no file formats but the GGUF block layouts in `gguf_quants`.
"""
