"""(tenant, served name) → route → pool → the order in which its replicas are tried.

Knows names, loads and breakers; not money, not HTTP.
"""
