"""Random models: valid, runnable, odd, and the same for the same seed."""

from onnx_passes.verify.models.recipe import Recipe, recipes

__all__ = ["Recipe", "recipes"]
