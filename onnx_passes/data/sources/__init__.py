"""Where samples come from: one module for each family of file forms."""
