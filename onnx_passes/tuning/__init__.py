"""Choose the precision of each part of a model, within a budget, for an objective."""
