"""Whether the files that a model reads its weights from are what they were."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

import onnx_ir as ir

from onnx_passes.model.contents import all_tensors
from onnx_passes.model.tensor_file import is_temporary

Stamp: TypeAlias = "tuple[int, int, int] | None"
"""Number, size and time of the last change of a file; None if there is none."""


def stamps_of(model: ir.Model) -> dict[Path, Stamp]:
    """Return the files that came with a model, each with its stamp.

    Weights are read from there when they are needed. Nothing may write there meanwhile.
    """
    outside = (t for t in all_tensors(model) if isinstance(t, ir.ExternalTensor))
    paths = {Path(tensor.path) for tensor in outside if not is_temporary(tensor)}
    return {path: _stamp(path) for path in paths}


def changed_files(stamps: Mapping[Path, Stamp]) -> list[str]:
    """Return the names of the files that are not what they were."""
    return sorted(path.name for path, stamp in stamps.items() if _stamp(path) != stamp)


def _stamp(path: Path) -> Stamp:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
