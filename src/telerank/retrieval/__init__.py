"""First stages over one index: its words, the vectors beside them, and the pipelines saved with it."""
