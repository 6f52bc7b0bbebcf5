"""Inputs for a model if only its graph is known."""

from onnx_passes.runtime.inputs.adversarial import (
    AdversarialFeeds,
    adversarial,
    name_of,
)
from onnx_passes.runtime.inputs.describe import describe_feeds
from onnx_passes.runtime.inputs.edges import DRAWN, LARGE_FLOATS, edge_samples
from onnx_passes.runtime.inputs.seeded_feeds import (
    Made,
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
