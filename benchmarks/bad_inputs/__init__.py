"""Hostile inputs: what each command says of them, and how it exits."""
