"""Inputs for a model if only its graph is known."""

from onnx_passes.runtime.inputs.boundary_values import (
    DRAWN,
    LARGE_FLOATS,
    AdversarialFeeds,
    adversarial,
    edge_samples,
    name_of,
)
from onnx_passes.runtime.inputs.seeded_feeds import (
    Made,
    describe_feeds,
    generate,
    make_samples,
    without_crashes,
)
from onnx_passes.runtime.inputs.substitutes import Substitute, Substitutes

__all__ = [
    "DRAWN",
    "LARGE_FLOATS",
    "AdversarialFeeds",
    "Made",
    "Substitute",
    "Substitutes",
    "adversarial",
    "describe_feeds",
    "edge_samples",
    "generate",
    "make_samples",
    "name_of",
    "without_crashes",
]
