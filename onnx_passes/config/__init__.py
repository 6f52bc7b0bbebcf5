"""Pipelines from YAML."""
