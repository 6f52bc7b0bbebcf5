"""Walk over graphs; hash, compare, copy and cut them."""
