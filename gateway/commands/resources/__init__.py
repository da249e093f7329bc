"""`tollway admin …` over the admin API: one module per resource, argument parsing and nothing else."""
