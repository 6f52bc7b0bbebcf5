"""Passes that remove what need not be computed."""
