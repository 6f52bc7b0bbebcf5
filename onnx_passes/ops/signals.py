"""Operators on signals and on classes, as far as their inputs go."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx_ir as ir

from onnx_passes.ops.base import Operator
from onnx_passes.ops.suggestions import Choices, Known, Operand, first


class STFT(Operator):
    """The spectra of the frames of a signal."""

    steers = (1, 3)

    def suggest(self, c: Choices, index: int, known: Known) -> Operand:
        if index in (1, 3):
            return Operand((), ir.DataType.INT64, (2 if index == 1 else 4,), constant=True)
        return c.data((1, 8, 1) if index == 0 else (4,))


class MelWeightMatrix(Operator):
    """The matrix that takes a spectrum to the mel scale."""

    steers = (0, 1, 2, 3, 4)

    def suggest(self, c: Choices, index: int, known: Known) -> Operand:
        if index < 3:
            number = (3, 16, 100)[index]
            return Operand((), ir.DataType.INT64, (number,), constant=True)
        return Operand((), ir.DataType.FLOAT, constant=True, positive=True)

    def options(self, name: str, known: Known) -> Sequence[Any]:
        return (1, 11) if name == "output_datatype" else ()


class NegativeLogLikelihoodLoss(Operator):
    """What the right classes lack of probability."""

    steers = (1,)

    def suggest(self, c: Choices, index: int, known: Known) -> Operand:
        if index == 1:
            return Operand((2,), ir.DataType.INT64, (0, 2), constant=True)
        rows, classes = first(known, (2, 3))[:2]
        return c.data((rows, classes) if index == 0 else (classes,))

    def options(self, name: str, known: Known) -> Sequence[Any]:
        return (None, "none", "sum", "mean") if name == "reduction" else ()
