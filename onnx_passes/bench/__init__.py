"""The debugging bench: compare, reduce, inspect, view."""
