"""One or several models on one or several engines: the same inputs, outputs held together.

with Runner("model.onnx", OnnxRuntimeEngine()) as runner:
    outputs = runner.infer({"x": x})

found = compare([Runner("a.onnx"), Runner("b.onnx")], generate(model))
assert found.passed
"""

from onnx_passes.verify.runs.compare import compare
from onnx_passes.verify.runs.found import Found, Latency, Pair, Run
from onnx_passes.verify.runs.judges import judge
from onnx_passes.verify.runs.runner import Loader, Runner
from onnx_passes.verify.runs.saved import open_results, save_results
from onnx_passes.verify.runs.settings import Settings

__all__ = [
    "Found",
    "Latency",
    "Loader",
    "Pair",
    "Run",
    "Runner",
    "Settings",
    "compare",
    "judge",
    "open_results",
    "save_results",
]
