"""What the generator knows of a value, and constants worth meeting in a model."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto

Dim = int | str | None
Shape = tuple[Dim, ...]
SYMBOLS = ("N", "S", "T")

FLOATS = (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16)
INTS = (
    TensorProto.INT64,
    TensorProto.INT32,
    TensorProto.INT8,
    TensorProto.UINT8,
    TensorProto.INT16,
    TensorProto.UINT16,
    TensorProto.UINT32,
    TensorProto.UINT64,
)
BOOL = TensorProto.BOOL
NUMBERS = (*FLOATS, *INTS)
ALL = (*NUMBERS, BOOL)

# Types as models have them: mostly float32, and int64 where shapes are computed.
_WEIGHTS: dict[int, int] = {
    TensorProto.FLOAT: 40,
    TensorProto.INT64: 16,
    TensorProto.INT32: 8,
    TensorProto.DOUBLE: 6,
    TensorProto.FLOAT16: 6,
    TensorProto.BOOL: 6,
    TensorProto.UINT8: 4,
    TensorProto.INT8: 4,
    TensorProto.BFLOAT16: 2,
    TensorProto.INT16: 2,
    TensorProto.UINT16: 1,
    TensorProto.UINT32: 2,
    TensorProto.UINT64: 2,
}


@dataclass(frozen=True)
class KnownValue:
    """A value that exists, and what is known of it.

    Attributes:
        name: Its name.
        dtype: Element type, as onnx numbers them.
        shape: Sizes; a name for a dynamic one, None for one that nothing is known of.
        data: Its elements where it is a constant.
    """

    name: str
    dtype: int
    shape: Shape | None
    data: NDArray[np.generic] | None = None

    @property
    def static(self) -> tuple[int, ...] | None:
        """The shape, where every size is known."""
        if self.shape is None:
            return None
        sizes = tuple(dim for dim in self.shape if isinstance(dim, int))
        return sizes if len(sizes) == len(self.shape) else None

    @property
    def rank(self) -> int:
        """Number of dimensions; -1 where even that is unknown."""
        return -1 if self.shape is None else len(self.shape)


def random_dtype(rng: np.random.Generator, among: tuple[int, ...] = ALL) -> int:
    """Draw an element type, the common ones more often.

    Args:
        rng: Draws the type.
        among: Types to draw from, as ONNX numbers them.
    """
    weights = np.asarray([_WEIGHTS[d] for d in among], np.float64)
    return int(rng.choice(among, p=weights / weights.sum()))


def random_array(
    rng: np.random.Generator, dtype: int, shape: tuple[int, ...]
) -> NDArray[np.generic]:
    """Draw a constant: often all zeros or ones, as rules look for; else small numbers.

    Args:
        rng: Draws the numbers.
        dtype: Element type, as ONNX numbers it.
        shape: Shape of the array.
    """
    kind = onnx.helper.tensor_dtype_to_np_dtype(dtype)
    if dtype == BOOL:
        return np.asarray(rng.integers(0, 2, shape), bool)
    style = rng.random()
    signed = dtype in (*FLOATS, *INTS[:3], TensorProto.INT16)
    if style < 0.12:
        found = np.zeros(shape)
    elif style < 0.28:
        found = np.ones(shape)
    elif style < 0.34 and signed:
        found = -np.ones(shape)
    elif style < 0.7 or dtype not in FLOATS:
        found = np.asarray(rng.integers(-4 if signed else 0, 5, shape), np.float64)
    else:
        found = rng.standard_normal(shape)
    return np.asarray(np.asarray(found).astype(kind))


def type_proto(value: KnownValue) -> onnx.TypeProto:
    """Return the type of a value, as onnx's inference takes it."""
    return onnx.helper.make_tensor_type_proto(
        value.dtype, None if value.shape is None else list(value.shape)
    )


def random_shape(rng: np.random.Generator) -> Shape:
    """Draw a shape: rank 0 to 4, sizes 0 to 5, some of them dynamic."""
    rank = int(rng.choice(5, p=[0.12, 0.2, 0.3, 0.2, 0.18]))
    dims: list[Dim] = []
    for _ in range(rank):
        style = rng.random()
        if style < 0.2:
            dims.append(str(rng.choice(SYMBOLS)))
        elif style < 0.22:
            dims.append(0)
        else:
            dims.append(int(rng.choice([1, 2, 3, 4, 5], p=[0.2, 0.25, 0.3, 0.15, 0.1])))
    return tuple(dims)


def known_of(name: str, found: onnx.TypeProto) -> KnownValue:
    """Return what onnx has inferred of a value.

    Args:
        name: Name of the value.
        found: Its type, as onnx has it.
    """
    tensor = found.tensor_type
    if not tensor.HasField("shape"):
        return KnownValue(name, tensor.elem_type, None)
    dims: list[Dim] = []
    for dim in tensor.shape.dim:
        field_ = dim.WhichOneof("value")
        if field_ == "dim_value":
            dims.append(dim.dim_value)
        else:
            dims.append(dim.dim_param if field_ == "dim_param" and dim.dim_param else None)
    return KnownValue(name, tensor.elem_type, tuple(dims))
