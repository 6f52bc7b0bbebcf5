"""Passes that move a model to another opset or interface."""
