"""Weights that an engine reads from their files itself, which it maps and may share.

What is mapped counts as resident memory of whoever touches it, once for each mapping. So this
process frees its own pages first; they come back from the file when they are read.
"""

from __future__ import annotations

import mmap
import sys
from collections import Counter
from pathlib import Path
from typing import NamedTuple, TypeVar

import onnx
import onnx_ir as ir
from onnx import helper

from onnx_passes.model.walk import all_tensors
from onnx_passes.ops.quantization import DequantizeLinear

T = TypeVar("T")

LARGE = 100 << 20
"""Bytes of weights from which on engines keep no copies, unless the user asks for them.

Copies of convolutions take more than three times as much: the layout in blocks, and what
normalizations are folded into.
"""


class WeightFolder(NamedTuple):
    """A folder with external data of a model.

    Attributes:
        path: The folder.
        size: Bytes of the model's weights in it, as numbers of at least 32 bits: that is what
            kernels of a CPU read.
    """

    path: str
    size: int

    @property
    def is_large(self) -> bool:
        """Whether copies of these weights would take much memory."""
        return self.size > LARGE


EMPTY = WeightFolder(str(Path(__file__).with_name("nothing")), 0)
"""A folder with an empty file of the name under which weights in memory are declared."""


def files_folder(model: ir.Model) -> WeightFolder | None:
    """Return the folder that holds most of a model's external data; None without any.

    Weights that nothing reads do not count: engines do not see them.
    """
    unread = {
        id(value.const_value)
        for value in model.graph.initializers.values()
        if not (value.uses() or value.is_graph_output())
    }
    sizes: Counter[str] = Counter()
    for tensor in all_tensors(model) if sys.byteorder == "little" else ():
        if isinstance(tensor, ir.ExternalTensor) and id(tensor) not in unread:
            sizes[str(Path(tensor.path).resolve().parent)] += max(
                tensor.nbytes, 4 * tensor.size
            )
    return WeightFolder(*sizes.most_common(1)[0]) if sizes else None


def in_folder(tensor: ir.TensorProtocol, folder: WeightFolder | None) -> bool:
    """Whether an engine finds a tensor in a file of that folder; if so, pages are let go.

    Args:
        tensor: The tensor.
        folder: The folder; None for none.
    """
    if folder is None or not isinstance(tensor, ir.ExternalTensor):
        return False
    path = Path(tensor.path).resolve()
    if str(path.parent) != folder.path or not path.is_file():
        return False
    raw = tensor.raw
    if isinstance(raw, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        raw.madvise(mmap.MADV_DONTNEED)
    return True


def locate_files(
    proto: onnx.ModelProto, weights: dict[str, T | ir.TensorProtocol]
) -> dict[str, T]:
    """Say in a protobuf where the tensors among ``weights`` lie, and return the others.

    Args:
        proto: The model; its initializers are changed.
        weights: Tensors by name of the initializer.
    """
    others: dict[str, T] = {}
    files: dict[str, ir.ExternalTensor] = {}
    for name, value in weights.items():
        if isinstance(value, ir.ExternalTensor):
            files[name] = value
        else:
            others[name] = value  # type: ignore[assignment]  # a protocol cannot be ruled out
    for initializer in proto.graph.initializer:
        tensor = files.get(initializer.name)
        if tensor is not None:
            del initializer.external_data[:]
            place = (
                ("location", Path(tensor.path).resolve().name),
                ("offset", str(tensor.offset or 0)),
                ("length", str(tensor.nbytes)),
            )
            for key, text in place:
                initializer.external_data.add(key=key, value=text)
    return others


def keep_integers(proto: onnx.ModelProto) -> None:
    """Let ONNX Runtime make no other layout of integer weights in files.

    Its rule for MatMulNBits copies constants that a node reads beside values in float, so
    these become inputs with a default. Without prepacking that kernel computes what
    DequantizeLinear and MatMul do. Kernels over integers alone, which read a weight as it is,
    stay: their nodes read two DequantizeLinear.

    Args:
        proto: The model, with the places of its weights; its inputs are changed.
    """
    made = {
        node.output[0]: node.input[0]
        for node in proto.graph.node
        if node.op_type == DequantizeLinear.op_type and not node.domain
    }
    single, several = set[str](), {value.name for value in proto.graph.input}
    for node in proto.graph.node:
        read = {made[name] for name in node.input if name in made}
        (single if len(read) == 1 else several).update(read)
    for tensor in proto.graph.initializer:
        if tensor.external_data and tensor.name in single - several:
            proto.graph.input.append(
                helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
            )
