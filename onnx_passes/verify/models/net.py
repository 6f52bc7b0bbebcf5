"""A quantised network under construction: its nodes, and the value that a layer reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from onnx_passes.arrays import Array
from onnx_passes.ops.bodies.operator_bodies import QONNX
from onnx_passes.plain import Plain

INTEGERS = "integers"
"""Key of the metadata of a network whose sums and joins are all of numbers on one grid."""

Draw = np.random.Generator

IR_VERSION = 8
OPSETS = (11, 13, 14, 16, 18, 20)
MODES = (*["ROUND"] * 12, "HALF_UP", "HALF_DOWN", "FLOOR", "CEIL", "DOWN")
"""Rounding modes, those less often whose steps are at integers, where sums of integers are."""

SHAPES = ((12,), (4, 8), (2, 6, 6), (3, 5, 5))
"""Shapes of an input, without the batch."""

_TO_NEAREST = ("ROUND", "HALF_UP", "HALF_DOWN")


_FLAT_WITHIN = 0.02
"""How near to its greatest number a Tanh or Sigmoid is too flat for a step to be found."""


class Net:
    """A network under construction, and the value that the next layer reads.

    Attributes:
        value: Name of that value.
        shape: Its shape without the batch: ``[D]``, ``[T, D]`` or ``[C, H, W]``.
        regular: Whether integers suffice for all between its quantisers: what is multiplied
            was quantised, and what is added or joined has one scale.
        flat: Names of what functions make that are flat far from 0.
    """

    def __init__(self, seed: int, shapes: Sequence[tuple[int, ...]] = SHAPES) -> None:
        """Begin with an input of one of some shapes."""
        self.draw = np.random.default_rng([seed, 2**20])
        self.seed, self.opset = seed, int(self.draw.choice(OPSETS))
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.shape: tuple[int, ...] = shapes[int(self.draw.integers(len(shapes)))]
        self.batch: int | str = "N" if self.draw.random() < 0.5 else 2
        self.value, self.regular = "image", True
        self.flat: set[str] = set()
        self.input = helper.make_tensor_value_info(
            "image", TensorProto.FLOAT, [self.batch, *self.shape]
        )
        self._count = 0

    def begin(self, number: int) -> None:
        """Draw from here on what the step of this number draws."""
        self.draw = np.random.default_rng([self.seed, number])

    def chance(self, share: float) -> bool:
        """Say yes in a share of the cases."""
        return bool(self.draw.random() < share)

    def add(self, kind: str, *inputs: str, domain: str = "", **attributes: Plain) -> str:
        """Add a node and return the name of its output.

        Args:
            kind: The operator.
            *inputs: Names of its inputs.
            domain: Its domain.
            **attributes: Its attributes.
        """
        self._count += 1
        name = f"{kind}_{self._count}"
        self.nodes.append(
            helper.make_node(kind, inputs, [name], name=name, domain=domain, **attributes)
        )
        return name

    def __getattr__(self, kind: str) -> Callable[..., str]:
        """Return what adds a node of an operator, as in ``net.Relu(x)``."""
        if not kind[0].isupper():
            raise AttributeError(kind)
        return partial(self.add, kind)

    def constant(self, array: object) -> str:
        """Add an initializer of float32, or of int64 if it holds integers."""
        self._count += 1
        array = np.asarray(array)
        kind = np.int64 if array.dtype.kind == "i" else np.float32
        name = f"constant_{self._count}"
        self.constants.append(numpy_helper.from_array(array.astype(kind), name))
        return name

    def along_channels(self, row: Array) -> Array:
        """Return a number for each channel in the shape that broadcasts along them."""
        return row.reshape(-1, 1, 1) if len(self.shape) == 3 else row

    @property
    def channels(self) -> int:
        """Size of the axis of channels."""
        return self.shape[0] if len(self.shape) == 3 else self.shape[-1]

    def scale(self) -> Array:
        """Draw a scale: any number, or a power of two, with which ties occur."""
        if self.chance(0.2):
            return np.asarray(2.0 ** -int(self.draw.integers(0, 5)), np.float32)
        return np.asarray(self.draw.uniform(0.02, 0.6), np.float32)

    def quantise(self, value: str) -> str:
        """Quantise an activation.

        Kernels of Sigmoid and Tanh waver where the function is flat, next to integers at which
        some rounding modes have steps: thresholds there are not found.
        """
        size = self.scale()
        scale = self.constant(size)
        # Sums of integers are often 0, where its step is, but for a term in front.
        if self.chance(0.3 if value.startswith(("Add", "BatchNorm", "image")) else 0.03):
            return self.BipolarQuant(value, scale, domain=QONNX)
        signed = int(self.chance(0.6))
        bits = float(self.draw.integers(2, 6))
        zero = float(self.draw.integers(0, 4)) if not signed and self.chance(0.2) else 0.0
        narrow = int(self.chance(0.2))
        mode = str(self.draw.choice(MODES))
        if value in self.flat and (mode not in _TO_NEAREST or _reaches_flat(size, bits)):
            self.regular = False
        return self.add(
            str(self.draw.choice(["Quant", "Quant", "IntQuant"])),
            *(value, scale, self.constant(zero), self.constant(bits)),
            domain=QONNX,
            signed=signed,
            narrow=narrow,
            rounding_mode=mode,
        )

    def on_one_grid(self, *values: str) -> list[str]:
        """Quantise values alike."""
        parameters = tuple(map(self.constant, (self.scale(), 0.0, 4.0)))
        flags = {"signed": 1, "narrow": 0, "rounding_mode": "ROUND"}
        return [self.Quant(v, *parameters, domain=QONNX, **flags) for v in values]

    def weights(self, shape: Sequence[int], axis: int) -> str:
        """Make quantised weights, with a scale for all or for each place along an axis.

        Args:
            shape: Shape of the weights.
            axis: The axis along which scales may differ.
        """
        array = self.constant(self.draw.normal(0, 0.7, shape))
        scale: Array = np.asarray(self.scale())
        if self.chance(0.4):
            size = [1] * len(shape)
            size[axis] = shape[axis]
            scale = self.draw.uniform(0.05, 0.5, size).astype(np.float32)
        if self.chance(0.2):
            return self.BipolarQuant(array, self.constant(scale), domain=QONNX)
        bits = float(self.draw.integers(2, 7))
        parameters = (self.constant(scale), self.constant(0.0), self.constant(bits))
        flags = {"signed": 1, "narrow": int(self.chance(0.7)), "rounding_mode": "ROUND"}
        return self.Quant(array, *parameters, domain=QONNX, **flags)

    def proto(self) -> onnx.ModelProto:
        """Return the model; its output is the value of the last layer."""
        if not self.nodes:
            self.value = self.Relu(self.value)
        output = helper.make_tensor_value_info(
            self.value, TensorProto.FLOAT, [self.batch, *self.shape]
        )
        graph = helper.make_graph(
            self.nodes, f"network_{self.seed}", [self.input], [output], self.constants
        )
        imports = [helper.make_opsetid("", self.opset), helper.make_opsetid(QONNX, 1)]
        model = helper.make_model(graph, opset_imports=imports, ir_version=IR_VERSION)
        if self.regular:
            helper.set_model_props(model, {INTEGERS: "between quantisers"})
        return model


def _reaches_flat(scale: Array, bits: float) -> bool:
    """Whether a step of a quantiser is where Tanh and Sigmoid are nearly 1, or -1."""
    steps = (np.arange(2**bits) + 0.5) * scale
    return bool((np.abs(steps - 1) < _FLAT_WITHIN).any())
