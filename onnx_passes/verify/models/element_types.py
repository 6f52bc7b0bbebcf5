"""Element types below float32 in random models: which kinds there are, and how types map."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto, helper

FLOAT, DOUBLE = TensorProto.FLOAT, TensorProto.DOUBLE
FLOAT16, BFLOAT16 = TensorProto.FLOAT16, TensorProto.BFLOAT16
FLOAT8 = (TensorProto.FLOAT8E4M3FN, TensorProto.FLOAT8E5M2)
_NEWER = (13, 15, 17, 18, 19, 20, 21, 22, 23, 23, 24, 24)
_WITH_FLOAT8 = (19, 20, 21, 22, 23, 23, 24, 24)


@dataclass(frozen=True)
class Precision:
    """How a model gets parts below float32.

    Steps choose types as if a model were float32. A one-to-one map then says which type a
    value has in the model: with FLOAT for FLOAT16, all forms that steps make are in float16.

    Attributes:
        swapped: Pairs of the type that steps choose and the one that the model has.
        low: Types in the model that low precision steps cast to.
        opsets: One of them is drawn; empty for those of all models.
        emulated: Whether an operator without kernel for bfloat16 has Casts around it.
        quantized: Whether the low precision steps quantize.
    """

    swapped: tuple[tuple[int, int], ...] = ()
    low: tuple[int, ...] = ()
    opsets: tuple[int, ...] = ()
    emulated: bool = False
    quantized: bool = False
    _real: dict[int, int] = field(init=False, repr=False, compare=False)
    _chosen: dict[int, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Invert the map."""
        object.__setattr__(self, "_real", dict(self.swapped))
        object.__setattr__(self, "_chosen", {real: chosen for chosen, real in self.swapped})

    def real(self, dtype: int) -> int:
        """Return the type in the model of one that a step chooses."""
        return self._real.get(dtype, dtype)

    def chosen(self, real: int) -> int:
        """Return what a step chooses for a type in the model."""
        return self._chosen.get(real, real)

    def array(self, array: NDArray[np.generic]) -> NDArray[np.generic]:
        """Return a constant of a step as the model has it; finite numbers stay finite.

        Args:
            array: Numbers of any shape, in the type that the step chose.
        """
        dtype = helper.np_dtype_to_tensor_dtype(array.dtype)
        real = self.real(dtype)
        if real == dtype:
            return array
        kind = helper.tensor_dtype_to_np_dtype(real)
        if real == FLOAT16:
            most = float(np.finfo(np.float16).max)
            array = np.where(np.isfinite(array), np.clip(array, -most, most), array)
        with np.errstate(over="ignore"):
            return np.asarray(np.asarray(array).astype(kind))

    def seen(self, array: NDArray[np.generic]) -> NDArray[np.generic]:
        """Return a constant as a step sees it: in the type that it chose, rounded.

        Args:
            array: Numbers of any shape and type.
        """
        with np.errstate(over="ignore"):
            return np.asarray(self.array(array).astype(array.dtype))


FULL = Precision()
"""That of models which have no steps of low precision."""

_HALF = ((FLOAT, FLOAT16), (DOUBLE, FLOAT), (FLOAT16, DOUBLE))
_BRAIN = ((FLOAT, BFLOAT16), (BFLOAT16, FLOAT))

PRECISIONS: dict[str, Precision] = {
    "float16": Precision(_HALF, low=(FLOAT, FLOAT, BFLOAT16), opsets=_NEWER),
    "mixed": Precision(
        ((DOUBLE, FLOAT16), (FLOAT16, DOUBLE)), low=(FLOAT16, FLOAT16, BFLOAT16), opsets=_NEWER
    ),
    "bfloat16": Precision(_BRAIN, low=(FLOAT, FLOAT, FLOAT16), opsets=_NEWER, emulated=True),
    "bfloat16 parts": Precision(low=(BFLOAT16,), opsets=_NEWER),
    "float8": Precision(low=FLOAT8, opsets=_WITH_FLOAT8),
    "float8 of float16": Precision(_HALF, low=FLOAT8, opsets=_WITH_FLOAT8),
    "quantized": Precision(opsets=_NEWER, quantized=True),
    "quantized float16": Precision(_HALF, opsets=_WITH_FLOAT8, quantized=True),
}
"""The kinds of low precision, by name."""
