"""Random models: valid, runnable, odd, and the same for the same seed."""

from onnx_passes.certifying.models.recipe import (
    Recipe,
    mixed_recipes,
    network_recipes,
    recipes,
)

__all__ = ["Recipe", "mixed_recipes", "network_recipes", "recipes"]
