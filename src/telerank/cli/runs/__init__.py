"""Commands that read run files."""
