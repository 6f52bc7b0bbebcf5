"""Under the module name that pipelines of the seed system import."""

from onnx_passes.passes.quantised.inline_qonnx import InlineQonnx

__all__ = ["InlineQonnx"]
