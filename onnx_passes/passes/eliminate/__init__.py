"""Passes that take out what need not be computed."""
