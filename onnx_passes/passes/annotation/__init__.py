"""Passes that add types, shapes and metadata."""
