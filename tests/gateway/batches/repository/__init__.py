"""Tests of the SQL of files and batches."""
