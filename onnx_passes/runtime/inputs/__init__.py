"""Inputs for a model of which nothing is known but its graph."""

from onnx_passes.runtime.inputs.adversarial import AdversarialFeeds, adversarial, name_of
from onnx_passes.runtime.inputs.describe import describe_feeds
from onnx_passes.runtime.inputs.generate import generate

__all__ = ["AdversarialFeeds", "adversarial", "describe_feeds", "generate", "name_of"]
