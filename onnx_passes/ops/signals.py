"""Operators on signals and on classes, as far as their inputs go."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from onnx_passes.ops.input_hints import ValueHint, exactly
from onnx_passes.ops.operator_class import Operator
from onnx_passes.ops.suggestions import Choices, Known, Operand, first
from onnx_passes.ops.use import Use, below


class STFT(Operator):
    """The spectra of the frames of a signal."""

    steers = (1, 3)

    def suggest(self, c: Choices, index: int, known: Known) -> Operand:
        if index in (1, 3):
            return Operand((), ir.DataType.INT64, (2 if index == 1 else 4,), constant=True)
        return c.data((1, 8, 1) if index == 0 else (4,))

    def admits(self, use: Use) -> ValueHint | None:
        frame = _frame_size(use)
        if use.index == 3:
            return None if frame is None else exactly(frame)
        if use.index != 1:
            return None
        # Frames of the output: 1 + (signal - frame) // step.
        signal, output = use.input_shape(0), use.output_shape()
        if signal is None or output is None or frame is None or output[1] < 2:
            return exactly(2)
        return exactly(max(1, (signal[1] - frame) // (output[1] - 1)))


class MelWeightMatrix(Operator):
    """The matrix that takes a spectrum to the mel scale."""

    steers = (0, 1, 2, 3, 4)

    def suggest(self, c: Choices, index: int, known: Known) -> Operand:
        if index < 3:
            number = (3, 16, 100)[index]
            return Operand((), ir.DataType.INT64, (number,), constant=True)
        return Operand((), ir.DataType.FLOAT, constant=True, positive=True)

    def options(self, name: str, known: Known) -> Sequence[object]:
        return (1, 11) if name == "output_datatype" else ()

    def admits(self, use: Use) -> ValueHint:
        output = use.output_shape()
        if output is not None and use.index < 2:
            return exactly(output[1] if use.index == 0 else 2 * (output[0] - 1))
        return exactly((8, 16, 8192, 0.0, 4000.0)[use.index])


class NegativeLogLikelihoodLoss(Operator):
    """What the right classes lack of probability."""

    steers = (1,)

    def suggest(self, c: Choices, index: int, known: Known) -> Operand:
        if index == 1:
            return Operand((2,), ir.DataType.INT64, (0, 2), constant=True)
        rows, classes = first(known, (2, 3))[:2]
        return c.data((rows, classes) if index == 0 else (classes,))

    def options(self, name: str, known: Known) -> Sequence[object]:
        return (None, "none", "sum", "mean") if name == "reduction" else ()

    def admits(self, use: Use) -> ValueHint | None:
        return below(use.dimension(0, 1)) if use.index == 1 else None


def _frame_size(use: Use) -> int | None:
    window, output = use.input_shape(2), use.output_shape()
    if window is not None:
        return window[0]
    if output is None:
        return 4
    bins = output[2]
    return 2 * (bins - 1) if use.integer("onesided", 1) else bins
