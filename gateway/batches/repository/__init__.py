"""SQL of files and batches."""
