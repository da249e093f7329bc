"""Engine pools: what should run, what runs, and the supervisor that makes the second follow the first.

Place: beside the data plane; it publishes replica rows that routing reads. Never sees a request.
"""
