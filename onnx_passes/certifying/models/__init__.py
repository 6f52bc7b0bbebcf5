"""Random models: valid, runnable, odd, and the same for the same seed."""

from onnx_passes.certifying.models.recipe import Recipe, network_recipes, recipes

__all__ = ["Recipe", "network_recipes", "recipes"]
