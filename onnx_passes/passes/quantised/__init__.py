"""Passes over quantisers and thresholds."""
