"""Module names of the seed system; the passes are elsewhere."""
