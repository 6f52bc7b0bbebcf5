"""Modules that the seed system's clients import, found as modules of ``onnx_passes.ops``."""
