"""Random requests against the real engine: `python -m tests.fuzz --requests 20000 --seed X`."""
