"""Tests of gateway/batches."""
