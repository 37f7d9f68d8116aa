"""Sets of questions, each with its own candidate sentences, some of which answer it."""
