"""Smaller models that still fail: parts of a model, checks, and the search among them."""

from onnx_passes.verify.reduce.candidates import Reduction
from onnx_passes.verify.reduce.parts import Boundary
from onnx_passes.verify.reduce.reducer import Reducer, reduce

__all__ = ["Boundary", "Reducer", "Reduction", "reduce"]
