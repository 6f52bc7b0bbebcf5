"""Passes that replace several operators by one."""
