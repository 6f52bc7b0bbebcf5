"""The command line: one file per command, and the only place that prints."""

from onnx_passes.cli.main import main

__all__ = ["main"]
