"""Build, compare and edit models."""
