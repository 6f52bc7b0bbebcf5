"""Passes that put primitive operators in the place of a composite one."""
