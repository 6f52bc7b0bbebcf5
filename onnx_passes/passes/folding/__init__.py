"""Passes over constants: evaluating, sharing and moving them."""
