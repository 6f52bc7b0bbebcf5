"""Passes that put a body in the place of its call."""
