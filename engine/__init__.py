"""One inference engine replica: one model on one set of devices, served over HTTP."""
