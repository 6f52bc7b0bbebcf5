"""The models: onnx's light ones, those of ``benchmarks.models``, and the exported ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import onnx

from benchmarks.models import llama_decoder, resnet50, transformer
from benchmarks.models.exported import exported_resnet50

BUILT: dict[str, Callable[[], onnx.ModelProto]] = {
    "transformer (built)": transformer,
    "llama decoder (built)": llama_decoder,
    "ResNet-50 (built)": resnet50,
    "ResNet-50 as exported (built)": exported_resnet50,
}


def corpus(cache: Path) -> dict[str, Path]:
    """Return all models by name; those that are built are written below ``cache``."""
    light = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
    found = {path.stem: path for path in sorted(light.glob("*.onnx"))}
    built = cache / "built"
    built.mkdir(parents=True, exist_ok=True)
    for name, build in BUILT.items():
        path = built / f"{build.__name__}.onnx"
        if not path.exists():
            onnx.save(build(), path)
        found[name] = path
    return found | listed(cache / "models")


def listed(folder: Path) -> dict[str, Path]:
    """Return the models of a folder by name."""
    return {path.stem: path for path in sorted(folder.glob("*.onnx"))}
