"""Pipelines in YAML: their schema and loader, and the pipelines that `-c NAME` finds."""
