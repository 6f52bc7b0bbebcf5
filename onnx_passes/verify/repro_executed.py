"""Build before.onnx and after.onnx on NVIDIA's compiler, run both, and compare.

Exit code 1: they still differ. 0: they agree. 2: the engine or its GPU is not here, or it does
not run them. Needs onnx-passes, the package of the engine, and a GPU.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent


def main() -> int:
    """Run both models and print how each output differs; return the exit code."""
    try:
        import numpy as np
        import onnx_ir as ir

        from onnx_passes.errors import OnnxPassesError
        from onnx_passes.runtime.engines import engine_from_config
    except ImportError as error:
        print(f"onnx-passes is not installed: {error}")
        return 2
    settings = json.loads((HERE / "check.json").read_text("utf-8"))["executed"]
    with np.load(HERE / "inputs.npz") as file:
        feeds = {name: file[name] for name in file.files}
    found: list[dict[str, Any]] = []
    try:
        engine = engine_from_config(settings["engine"], settings["options"])
        for name in ("before.onnx", "after.onnx"):
            with engine.prepare(ir.load(HERE / name)) as session:
                found.append(session.run(feeds))
    except OnnxPassesError as error:
        print(f"{settings['engine']}: {error.message}")
        return 2
    wrong = False
    for name, (rtol, atol) in settings["limits"].items():
        before, after = (np.asarray(outputs[name]) for outputs in found)
        if before.shape != after.shape:
            print(f"{name}: shape {after.shape}, not {before.shape}")
            wrong = True
            continue
        wide = (before.astype(np.float64), after.astype(np.float64))
        size = np.max(np.abs(wide[0]), initial=0.0) if settings["scaled"] else np.abs(wide[0])
        near = np.abs(wide[1] - wide[0]) <= atol + rtol * size
        near |= (wide[1] == wide[0]) | (np.isnan(wide[0]) & np.isnan(wide[1]))
        print(f"{name}: {int((~near).sum())} of {near.size} elements differ")
        wrong |= not bool(near.all())
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
