"""SQL of retention: what is pruned, and the data of one tenant."""
