"""Did a pass keep its promise?"""

from onnx_passes.contracts import equality, metric, metrics, tolerance

__all__ = ["equality", "metric", "metrics", "tolerance"]
