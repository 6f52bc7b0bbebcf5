"""Samples that passes measure on."""

from onnx_passes.passes.context import PassContext


def sampled(pass_, *samples):
    """Return a pass that measures on samples, as one of a run with reference data does."""
    pass_.context = PassContext(samples=list(samples))
    return pass_
