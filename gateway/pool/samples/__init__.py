"""Samples of replicas as rows, and as charts."""

from gateway.pool.samples.repository import (
    Sampled,
    SamplePoint,
    SampleRow,
    charted,
    sampled_replicas,
    write_samples,
)

__all__ = ["SamplePoint", "SampleRow", "Sampled", "charted", "sampled_replicas", "write_samples"]
