"""A model as a page: its graph, collapsed by scope, searchable and coloured."""
