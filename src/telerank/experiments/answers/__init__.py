"""Experiments with readers: their trainings, their answers in texts that are given, and end to end."""
