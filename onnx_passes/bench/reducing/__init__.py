"""Smaller models that still fail: parts of a model, checks, and the search among them."""

from onnx_passes.bench.reducing.candidates import Reduction
from onnx_passes.bench.reducing.parts import Boundary
from onnx_passes.bench.reducing.reducer import Reducer, reduce

__all__ = ["Boundary", "Reducer", "Reduction", "reduce"]
