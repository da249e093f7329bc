"""Tests of gateway/blobs."""
