"""Measurements that need no pass or fail: each is a command that prints numbers."""
