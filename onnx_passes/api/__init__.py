"""The program's jobs from Python; ``import onnx_passes`` offers them."""
