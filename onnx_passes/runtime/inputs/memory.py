"""Do inputs fit into the memory of this machine? Asked before any of them is made."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

import onnx_ir as ir

from onnx_passes.errors import ModelError
from onnx_passes.ops.input_hints import StaticShape, static_shape

_SHARE = 8
"""What generated inputs may take: one part in so many of the memory.

A run holds several samples, and what is computed of them.
"""

_CGROUPS = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)
_UNKNOWN = 1 << 40
_HELP = "give smaller sizes under 'reference.dims', inputs of your own with --inputs, "
_HELP += "or --no-verify, which runs nothing"


@cache
def machine_memory() -> int:
    """Return the bytes of memory that this process may have; a large number if not known."""
    known = [_UNKNOWN]
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        known.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    for path in _CGROUPS:
        try:
            known.append(int(path.read_text()))
        except (OSError, ValueError):  # no such group, or one without a limit
            continue
    return min(size for size in known if size > 0)


def fits_memory(inputs: Iterable[ir.Value], shapes: Mapping[str, StaticShape]) -> bool:
    """Whether one sample of these shapes takes at most an eighth of the memory.

    Args:
        inputs: The inputs, for their types.
        shapes: Their shapes by name.
    """
    return _input_bytes(inputs, shapes) <= machine_memory() // _SHARE


def too_large(inputs: Iterable[ir.Value], shapes: Mapping[str, StaticShape]) -> ModelError:
    """Return the error of inputs that do not fit into the memory.

    Args:
        inputs: The inputs, for their types.
        shapes: Their shapes by name.
    """
    sizes = {str(value.name): _input_bytes([value], shapes) for value in inputs}
    largest = max(sizes, key=lambda name: sizes[name])
    share = f", {_text(machine_memory() // _SHARE)} of it for generated inputs"
    share += f"; the largest is {largest!r}"
    return _error("the inputs of the model take", sum(sizes.values()), share)


def check_memory(model: ir.Model) -> None:
    """Check that a run of a model is possible at all.

    Args:
        model: The model in the shapes of one sample.

    Raises:
        ModelError: One value alone takes more than all of the memory.
    """
    memory = machine_memory()
    seen: set[tuple[int, ir.DataType | None]] = set()  # most values share one shape
    for node in model.graph:
        for value in node.outputs:
            kind = (id(value.shape), value.dtype)
            if kind in seen:
                continue
            seen.add(kind)
            shape = static_shape(value)
            if shape is None:
                continue
            size = math.prod(shape) * _bits(value.dtype) // 8
            if size > memory:
                raise _error(f"the value {value.name!r} ({node.op_type}) takes", size)


def _error(what: str, size: int, share: str = "") -> ModelError:
    memory = _text(machine_memory())
    return ModelError(
        f"{what} {_text(size)}, and this machine has {memory} of memory{share}", help=_HELP
    )


def _input_bytes(inputs: Iterable[ir.Value], shapes: Mapping[str, StaticShape]) -> int:
    return sum(
        math.prod(shapes[str(value.name)]) * _bits(value.dtype) // 8 for value in inputs
    )


def _bits(dtype: ir.DataType | None) -> int:
    # numpy holds strings by reference.
    return 64 if dtype is None or dtype == ir.DataType.STRING else dtype.bitwidth


def _text(size: float) -> str:
    units = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"]
    while size >= 1024 and len(units) > 1:
        size, units = size / 1024, units[1:]
    return f"{size:.3g} {units[0]}"
