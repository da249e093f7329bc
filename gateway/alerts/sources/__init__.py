"""What may be wrong, source by source: each turns what it reads into signals. None of them writes or tells anybody."""
