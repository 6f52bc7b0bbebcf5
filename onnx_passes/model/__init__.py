"""Models: load and save them with nothing lost; walk, copy, hash, compare and cut them."""
