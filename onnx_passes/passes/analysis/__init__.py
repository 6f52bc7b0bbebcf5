"""Passes that read the model and change nothing."""
