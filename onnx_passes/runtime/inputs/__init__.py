"""Inputs for a model if only its graph is known."""

from onnx_passes.runtime.inputs.boundary_values import (
    LARGE_FLOATS,
    RANDOM_VALUES,
    AdversarialFeeds,
    adversarial,
    edge_samples,
    held_on,
    is_empty,
    name_of,
)
from onnx_passes.runtime.inputs.seeded_feeds import (
    GeneratedSample,
    describe_feeds,
    generate,
    make_samples,
    without_crashes,
)
from onnx_passes.runtime.inputs.substitutes import InputSearch, Substitute

__all__ = [
    "LARGE_FLOATS",
    "RANDOM_VALUES",
    "AdversarialFeeds",
    "GeneratedSample",
    "InputSearch",
    "Substitute",
    "adversarial",
    "describe_feeds",
    "edge_samples",
    "generate",
    "held_on",
    "is_empty",
    "make_samples",
    "name_of",
    "without_crashes",
]
