"""Model families: configuration, one decoder definition per family, and the weight loader.

The runner asks `registry` for a model and gets a `CausalLM` (see `engine.layers.batch`). Knows nothing
of requests, scheduling or sampling.
"""
