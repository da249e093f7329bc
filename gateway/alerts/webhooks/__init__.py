"""Webhooks: events brought to addresses that tenants and the operator name, signed as Standard Webhooks asks."""
