"""A copy of a model in which the sizes of values are known, as far as they can be."""

import math
from collections.abc import Mapping

import onnx_ir as ir

from onnx_passes.errors import OptionError, PassError
from onnx_passes.model.copy import copy_model
from onnx_passes.ops.operator_class import operators
from onnx_passes.passes.annotation.shape_inference import try_infer_shapes
from onnx_passes.passes.cleanup.topological_sort import TopologicalSort
from onnx_passes.passes.common.shapes import sizes_of
from onnx_passes.passes.convert.freeze_dims import FreezeDims
from onnx_passes.passes.inline.inline_functions import InlineFunctions

VIEWS = frozenset(o.op_type for o in operators() if o.view)
"""Operators whose output is their first input under another shape: no byte moves."""

GIVE_SIZES = "give the dynamic dimensions sizes: dims: {batch: 1}"


def sized(model: ir.Model, dims: Mapping[str, int], name: str) -> ir.Model:
    """Copy a model, inline its functions, give dimensions sizes, and infer the shapes.

    Weights are shared. An OptionError says that no input has a dimension of that name, or that
    a size is negative.
    """
    copy = copy_model(model)
    TopologicalSort()(copy)
    if copy.functions:
        InlineFunctions().call(copy)
    try:
        FreezeDims(dims=dict(dims)).call(copy)
    except PassError as error:
        message = error.message.removeprefix("freeze-dims: ")
        raise OptionError(f"{name}: {message}", help=error.help) from error
    try_infer_shapes(copy)
    return copy


def elements_of(value: ir.Value | None) -> int | None:
    """Return the number of elements of a tensor; None where it is not known."""
    sizes = sizes_of(value)
    return None if sizes is None else math.prod(sizes)


def bytes_of(value: ir.Value | None) -> int | None:
    """Return the bytes of a tensor, 4-bit elements packed; None where they are not known.

    An input or output that is left out has none; strings and sequences have no fixed size.
    """
    if value is None:
        return 0
    elements, dtype = elements_of(value), value.dtype
    if elements is None or dtype is None or not isinstance(value.type, ir.TensorType):
        return None
    if dtype in (ir.DataType.STRING, ir.DataType.UNDEFINED):
        return None
    return -(-elements * dtype.bitwidth // 8)


def operator_label(node: ir.Node) -> str:
    """Return the operator as statistics name it: other domains as ``domain::Op``."""
    return f"{node.domain}::{node.op_type}" if node.domain else node.op_type


def label_of(node: ir.Node) -> str:
    """Return what a reader finds a node by: its operator, and its name or first output."""
    first = next((v.name for v in node.outputs if v.name), "")
    return f"{operator_label(node)} {node.name or first!r}"


def listed(labels: list[str], most: int = 3) -> str:
    """Join labels, and say how many more there are."""
    more = f" and {len(labels) - most:,} more" if len(labels) > most else ""
    return ", ".join(labels[:most]) + more


def scaled(number: int, unit: str) -> str:
    """Write a count with a decimal prefix: ``1.82 GFLOP``, ``14.2 MB``."""
    for power, prefix in ((12, "T"), (9, "G"), (6, "M"), (3, "k")):
        if number >= 10**power:
            return f"{number / 10**power:.3g} {prefix}{unit}"
    return f"{number} {unit}"
