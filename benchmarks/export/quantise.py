"""``python -m benchmarks.export.quantise SOURCE OUT``: QDQ, calibrated on random inputs."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, quantize_static

SAMPLES = 4
SEED = 0


class Perturbed(CalibrationDataReader):
    """The example inputs; floats are drawn anew for each sample."""

    def __init__(self, inputs: dict[str, Any]) -> None:
        draw = np.random.default_rng(SEED)
        self.samples = iter(
            {
                name: draw.standard_normal(value.shape, np.float32)
                if value.dtype == np.float32
                else value
                for name, value in inputs.items()
            }
            for _ in range(SAMPLES)
        )

    def get_next(self) -> dict[str, Any] | None:
        """Return a sample, or None after the last."""
        return next(self.samples, None)


def main() -> None:
    """Quantise, and print what was written."""
    source, out = Path(sys.argv[1]), Path(sys.argv[2])
    with np.load(source.with_suffix(".npz")) as arrays:
        reader = Perturbed(dict(arrays))
    quantize_static(
        str(source), str(out), reader, quant_format=QuantFormat.QDQ, per_channel=True
    )
    onnx.checker.check_model(str(out))
    shutil.copyfile(source.with_suffix(".npz"), out.with_suffix(".npz"))
    nodes = len(onnx.load(out).graph.node)
    print(json.dumps({"nodes": nodes, "bytes": out.stat().st_size}))


if __name__ == "__main__":
    main()
