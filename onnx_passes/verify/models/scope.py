"""A graph in the making: values to choose from, and nodes that are known to be valid."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from onnx_passes.verify.models.support import runs
from onnx_passes.verify.models.values import (
    ALL,
    Dim,
    Known,
    Shape,
    random_array,
    random_dtype,
    type_proto,
)

SYMBOLS = ("N", "S", "T")
IR_VERSION = 10


_REFUSALS = (
    onnx.shape_inference.InferenceError,
    onnx.checker.ValidationError,
    onnx.defs.SchemaError,
    ValueError,
)


class UnfitError(Exception):
    """No node of this kind can be made here."""


@dataclass
class Scope:
    """One graph: the main one, or a body inside it.

    Choices are stable: leaving a step out changes what other steps choose only where they
    used what it made. That is what lets a recipe shrink.

    Attributes:
        seed: Of all choices.
        opset: Of the main domain.
        parent: The scope whose values are seen from here as well.
        step: Number of the step at work; part of every name.
        prefix: Of names made here.
        sealed: Values that may be returned and that no other step reads.
    """

    seed: int
    opset: int
    parent: Scope | None = None
    step: int = 0
    prefix: str = ""
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    values: list[Known] = field(default_factory=list)
    inputs: list[Known] = field(default_factory=list)
    initializers: list[onnx.TensorProto] = field(default_factory=list)
    functions: list[onnx.FunctionProto] = field(default_factory=list)
    sealed: list[Known] = field(default_factory=list)
    _made: int = 0
    _picks: int = 0

    def begin(self, step: int) -> np.random.Generator:
        """Start a step; return its random numbers."""
        self.step, self._made, self._picks = step, 0, 0
        return np.random.default_rng([self.seed, step])

    @property
    def main(self) -> Scope:
        """The scope of the main graph."""
        return self if self.parent is None else self.parent.main

    def seen(self) -> list[Known]:
        """Return the values that a node here may read."""
        return [*self.values, *(self.parent.seen() if self.parent is not None else ())]

    def name(self) -> str:
        """Return a name that nothing else has."""
        self._made += 1
        return f"{self.prefix}v{self.step}_{self._made}"

    def pick(self, fits: Callable[[Known], bool]) -> Known:
        """Choose a value.

        Raises:
            UnfitError: None fits.
        """
        self._picks += 1
        salt = f"{self.seed}/{self.step}/{self._picks}/"
        found = [value for value in self.seen() if fits(value)]
        if not found:
            raise UnfitError
        return max(found, key=lambda v: hashlib.blake2b((salt + v.name).encode()).digest())

    def pick_type(self, *dtypes: int) -> Known:
        """Choose a value of one of some types, of known rank."""
        return self.pick(lambda v: v.dtype in dtypes and v.shape is not None)

    def constant(self, array: NDArray[np.generic], rng: np.random.Generator) -> Known:
        """Add a constant: an initializer, or a node."""
        name = self.name()
        tensor = onnx.numpy_helper.from_array(np.ascontiguousarray(array), name)
        if array.ndim == 0:
            tensor = onnx.numpy_helper.from_array(np.asarray(array), name)
        known = Known(name, tensor.data_type, tuple(array.shape), array)
        if rng.random() < 0.6:
            self.initializers.append(tensor)
        else:
            self.nodes.append(onnx.helper.make_node("Constant", [], [name], value=tensor))
        self.values.append(known)
        return known

    def ints(self, numbers: Sequence[int], rng: np.random.Generator) -> Known:
        """Add a constant vector of int64."""
        return self.constant(np.asarray(numbers, np.int64), rng)

    def fresh(
        self,
        rng: np.random.Generator,
        dtypes: Sequence[int] = ALL,
        shape: Shape | None = None,
    ) -> Known:
        """Add a value out of nowhere: an input, or a constant."""
        dtype = random_dtype(rng, tuple(dtypes))
        if shape is None:
            shape = random_shape(rng)
        sizes = [dim for dim in shape if isinstance(dim, int)]
        if len(sizes) == len(shape) and rng.random() < 0.6:
            return self.constant(random_array(rng, dtype, tuple(sizes)), rng)
        known = self.input(dtype, shape)
        if len(sizes) == len(shape) and rng.random() < 0.15:
            array = random_array(rng, dtype, tuple(sizes))
            self.main.initializers.append(onnx.numpy_helper.from_array(array, known.name))
        return known

    def input(self, dtype: int, shape: Shape) -> Known:
        """Add an input of the model."""
        main = self.main
        known = Known(f"x{self.prefix}{self.step}_{len(main.inputs)}", dtype, shape)
        main.inputs.append(known)
        main.values.append(known)
        return known

    def overridable(self, constant: Known) -> Known:
        """Add an input of the model whose default is a constant."""
        assert constant.data is not None
        known = self.input(constant.dtype, constant.data.shape)
        array = np.asarray(constant.data)
        self.main.initializers.append(onnx.numpy_helper.from_array(array, known.name))
        return known

    def seal(self, value: Known) -> None:
        """Keep a value for the outputs of the graph only."""
        if value in self.values:
            self.values.remove(value)
        self.sealed.append(value)

    def emit(
        self,
        operator: str,
        inputs: Sequence[Known | None],
        outputs: int = 1,
        **attributes: Any,
    ) -> list[Known]:
        """Add a node, whose outputs follow from onnx's own inference.

        Raises:
            UnfitError: onnx or ONNX Runtime does not take it.
        """
        names = ["" if value is None else value.name for value in inputs]
        while names and not names[-1]:
            names.pop()
        made = [self.name() for _ in range(outputs)]
        given = {k: v for k, v in attributes.items() if v is not None}
        try:
            node = onnx.helper.make_node(operator, names, made, f"n{made[0]}", **given)
        except ValueError:
            raise UnfitError from None  # an empty list has no type
        present = {v.name: v for v in inputs if v is not None}
        types = self._infer(node, present)
        dtypes = tuple(None if v is None else v.dtype for v in inputs)
        ranks = {v.name: v.rank for v in present.values()}
        if not runs(node, dtypes, ranks, self.opset):
            raise UnfitError
        return self.add(node, [_known(name, types[name]) for name in made])

    def add(self, node: onnx.NodeProto, outputs: Sequence[Known]) -> list[Known]:
        """Add a node whose outputs are known."""
        self.nodes.append(node)
        self.values.extend(outputs)
        return list(outputs)

    def _infer(
        self, node: onnx.NodeProto, inputs: dict[str, Known]
    ) -> dict[str, onnx.TypeProto]:
        try:
            schema = onnx.defs.get_schema(node.op_type, self.opset, "")
            data = {
                v.name: onnx.numpy_helper.from_array(v.data, v.name)
                for v in inputs.values()
                if v.data is not None
            }
            found = onnx.shape_inference.infer_node_outputs(
                schema,
                node,
                {v.name: type_proto(v) for v in inputs.values()},
                data,
                opset_imports=[onnx.helper.make_opsetid("", self.opset)],
                ir_version=IR_VERSION,
            )
        except _REFUSALS:
            raise UnfitError from None
        if any(not t.tensor_type.elem_type for t in found.values()) or len(found) < len(
            [name for name in node.output if name]
        ):
            raise UnfitError
        return dict(found)

    def has_attribute(self, operator: str, name: str) -> bool:
        """Whether an operator of this opset has an attribute.

        Raises:
            UnfitError: There is no such operator.
        """
        try:
            schema = onnx.defs.get_schema(operator, self.opset, "")
        except onnx.defs.SchemaError:
            raise UnfitError from None
        return name in schema.attributes


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


def _known(name: str, found: onnx.TypeProto) -> Known:
    tensor = found.tensor_type
    if not tensor.HasField("shape"):
        return Known(name, tensor.elem_type, None)
    dims: list[Dim] = []
    for dim in tensor.shape.dim:
        field_ = dim.WhichOneof("value")
        if field_ == "dim_value":
            dims.append(dim.dim_value)
        else:
            dims.append(dim.dim_param if field_ == "dim_param" and dim.dim_param else None)
    return Known(name, tensor.elem_type, tuple(dims))
