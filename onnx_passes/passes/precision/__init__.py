"""Passes that change the precision of a model on purpose."""
