"""Run a model on held-back data, and measure it against labels."""

from pathlib import Path

import numpy as np

from onnx_passes.bench.runs import Runner
from onnx_passes.contracts import metrics

digits = Path(__file__).parent / "../digits"
images, labels = np.load(digits / "images.npy"), np.load(digits / "labels.npy")
with Runner(digits / "model.onnx") as runner:
    scores = runner.infer({"image": images})["scores"]
print("accuracy", metrics.lookup("accuracy").measure([[scores]], [[labels]]))
