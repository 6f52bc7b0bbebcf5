"""Passes that replace composite operators by primitive ones."""
