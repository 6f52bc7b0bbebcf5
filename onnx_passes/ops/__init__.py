"""Operators, each told once, over any arithmetic."""
