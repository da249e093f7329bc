"""One inference engine replica: one model on one set of devices, served over HTTP."""

__version__ = "0.0.1"
