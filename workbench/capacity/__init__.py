"""`tollway plan`: what a model needs of GPUs. Arithmetic on what the model's own files say."""
