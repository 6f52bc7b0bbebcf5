"""Passes that replace calls by bodies."""
