"""``python -m onnx_passes`` is the command line."""

from onnx_passes.cli import main

main()
