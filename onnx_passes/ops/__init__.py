"""Operator domains with reference implementations."""
