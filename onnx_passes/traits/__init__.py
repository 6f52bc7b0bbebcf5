"""Kinds of operators, under the module names of the seed system."""
