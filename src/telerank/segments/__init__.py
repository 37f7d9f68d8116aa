"""Long documents: cutting them into segments that a pair scorer reads, and ranking them by their segments."""
