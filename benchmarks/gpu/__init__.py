"""What a GPU makes of scoring, encoding, training and dense search: one command, one file to send."""
