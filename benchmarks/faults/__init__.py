"""Wrong rewrites of the kind that optimisers ship, and whether the gate sees them."""
