"""Pipelines that ship with the package, found by name."""
