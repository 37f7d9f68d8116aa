"""The service: searching, answering, re-ranking and embedding over HTTP, for programs and for people."""
