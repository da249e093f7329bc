"""Alerts: what is worth telling somebody, told once, and its way to whoever wants to hear it.

A cause writes its record and an outbox row in its own transaction; the worker turns the row into one delivery per
channel and target, and sends each until it has arrived.
"""
