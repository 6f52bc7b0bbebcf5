"""Under the module name that pipelines of the seed system import."""

from onnx_passes.passes.quantised.import_qonnx import ImportQonnx

__all__ = ["ImportQonnx"]
