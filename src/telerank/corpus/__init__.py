"""Collections: readers for each format, the docstore, and sets made from other sets."""
