"""``python -m onnx_passes`` is the command line."""

from onnx_passes.cli import main

if __name__ == "__main__":
    main()
