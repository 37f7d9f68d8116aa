"""Training: examples, batches, the loop, and checkpoints that resume to the same losses."""
