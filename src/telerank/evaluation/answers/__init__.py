"""Measures of answers: predicted texts against the gold answers of questions.

Nothing here knows a model or an index: an answer is a text, and no answer is the empty text.
"""
