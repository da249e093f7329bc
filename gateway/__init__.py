"""The gateway: admits, prices and relays tenants' requests. It imports neither torch nor the engine."""
