"""Systems side by side: what ``telerank.experiment`` does."""
