"""Models in and out of files, nothing lost."""
