"""How many layers NVIDIA's compiler makes of networks, as they are and after presets.

    python -m benchmarks.tensorrt_layers FOLDER [PART_OF_A_NAME]...

Prints a table of the models in a folder. Needs the extra ``tensorrt-rtx`` and no GPU: engines
are built for one compute capability, and the builder logs their layers. What the compiler
fuses by itself takes fewer layers; a preset that hides a form from it takes more.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import onnx_ir as ir

from onnx_passes.api.pipeline_runs import run
from onnx_passes.errors import OnnxPassesError
from onnx_passes.model.load import load_model
from onnx_passes.runtime.engines import engine_from_config
from onnx_passes.runtime.inputs import generate
from onnx_passes.runtime.tensorrt.engine import built_layers, with_profiles_of

CAPABILITY = "8.9"
PRESETS = ("", "tensorrt", "optimize")
"""What a model is put through; empty for nothing."""


def layers(model: ir.Model) -> int | None:
    """Return the number of layers of an engine; None if the model is not built."""
    engine = engine_from_config("tensorrt-rtx", {"compute_capabilities": [CAPABILITY]})
    found = built_layers(with_profiles_of(engine, model, generate(model, samples=1)), model)
    return len(found) or None


def optimized(path: Path, preset: str) -> ir.Model:
    """Return a model after a preset, unchecked."""
    model = load_model(path).model
    if not preset:
        return model
    return run(model, preset, verify=False).model


def row(path: Path) -> list[str]:
    """Return the nodes and the layers of one model after each preset, as cells."""
    cells = [path.stem]
    for preset in PRESETS:
        try:
            model = optimized(path, preset)
            count = layers(model)
        except OnnxPassesError as error:
            cells += ["-", error.message.splitlines()[0][:60]]
            continue
        cells += [str(len(model.graph)), "not built" if count is None else str(count)]
    return cells


def main(words: Sequence[str]) -> None:
    """Print the table."""
    folder, *names = words
    heads = [
        f"{preset or 'original'}: {what}" for preset in PRESETS for what in ("nodes", "layers")
    ]
    print("| model | " + " | ".join(heads) + " |")
    print("|" + "---|" * (len(heads) + 1))
    outcomes: Counter[str] = Counter()
    for path in sorted(Path(folder).glob("*.onnx")):
        if names and not any(name in path.stem for name in names):
            continue
        cells = row(path)
        print("| " + " | ".join(cells) + " |", flush=True)
        if all(cell.isdigit() for cell in cells[1:]):
            old, new = int(cells[2]), int(cells[4])
            outcomes["fewer" if new < old else "more" if new > old else "as many"] += 1
    print(f"\n`tensorrt` against the original: {dict(outcomes)}")


if __name__ == "__main__":
    main(sys.argv[1:])
