"""Under the module name that passes of the seed system import."""
