"""NVIDIA TensorRT and TensorRT for RTX as engines: two packages with nearly the same API."""
