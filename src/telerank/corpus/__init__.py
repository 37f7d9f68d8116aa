"""Collections: a reader for each format, the docstore, and ranking sets made from other sets."""
