"""A graph in the making: values to choose from, and nodes that are known to be valid."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import onnx
from numpy.typing import NDArray

from onnx_passes.plain import PlainDict
from onnx_passes.verify.models.element_types import BFLOAT16, FLOAT, FULL, Precision
from onnx_passes.verify.models.inferring import UnfitError, infer_outputs
from onnx_passes.verify.models.known_values import (
    ALL,
    KnownValue,
    Shape,
    known_of,
    random_array,
    random_dtype,
    random_shape,
    type_proto,
)
from onnx_passes.verify.models.support import runs


@dataclass
class GraphScope:
    """One graph: the main one, or a body inside it.

    Choices are stable: leaving a step out changes what other steps choose only where they
    used what it made. That is what lets a recipe shrink.

    Attributes:
        seed: Of all choices.
        opset: Of the main domain.
        parent: The scope whose values are seen from here as well.
        step: Number of the step at work; part of every name.
        prefix: Of names made here.
        precision: Which types the values have in the model; steps choose others.
        sealed: Values that may be returned and that no other step reads.
    """

    seed: int
    opset: int
    parent: GraphScope | None = None
    step: int = 0
    prefix: str = ""
    precision: Precision = FULL
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    values: list[KnownValue] = field(default_factory=list)
    inputs: list[KnownValue] = field(default_factory=list)
    initializers: list[onnx.TensorProto] = field(default_factory=list)
    functions: list[onnx.FunctionProto] = field(default_factory=list)
    sealed: list[KnownValue] = field(default_factory=list)
    _made: int = 0
    _picks: int = 0

    def begin(self, step: int) -> np.random.Generator:
        """Start a step; return its random numbers."""
        self.step, self._made, self._picks = step, 0, 0
        return np.random.default_rng([self.seed, step])

    @property
    def main(self) -> GraphScope:
        """The scope of the main graph."""
        return self if self.parent is None else self.parent.main

    def seen(self) -> list[KnownValue]:
        """Return the values that a node here may read."""
        return [*self.values, *(self.parent.seen() if self.parent is not None else ())]

    def name(self) -> str:
        """Return a name that nothing else has."""
        self._made += 1
        return f"{self.prefix}v{self.step}_{self._made}"

    def pick(self, fits: Callable[[KnownValue], bool]) -> KnownValue:
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

    def pick_type(self, *dtypes: int) -> KnownValue:
        """Choose a value of one of some types, of known rank."""
        return self.pick(lambda v: v.dtype in dtypes and v.shape is not None)

    def constant(self, array: NDArray[np.generic], rng: np.random.Generator) -> KnownValue:
        """Add a constant: an initializer, or a node.

        Args:
            array: The numbers, of any shape and type.
            rng: Draws whether it is an initializer or a node.
        """
        name = self.name()
        tensor = self.tensor(array, name)
        array = self.precision.seen(array)
        dtype = self.precision.chosen(tensor.data_type)
        known = KnownValue(name, dtype, tuple(array.shape), array)
        if rng.random() < 0.6:
            self.initializers.append(tensor)
        else:
            self.nodes.append(onnx.helper.make_node("Constant", [], [name], value=tensor))
        self.values.append(known)
        return known

    def tensor(self, array: NDArray[np.generic], name: str) -> onnx.TensorProto:
        """Return a constant as the model has it.

        Args:
            array: The numbers, of any shape and type.
            name: Name of the tensor.
        """
        real = self.precision.array(array)
        # Of a scalar, numpy would make a vector.
        real = np.ascontiguousarray(real) if real.ndim else np.asarray(real)
        return onnx.numpy_helper.from_array(real, name)

    def type_of(self, value: KnownValue) -> onnx.TypeProto:
        """Return the type that a value has in the model."""
        return type_proto(replace(value, dtype=self.precision.real(value.dtype)))

    def ints(self, numbers: Sequence[int], rng: np.random.Generator) -> KnownValue:
        """Add a constant vector of int64.

        Args:
            numbers: The elements.
            rng: Draws whether it is an initializer or a node.
        """
        return self.constant(np.asarray(numbers, np.int64), rng)

    def fresh(
        self,
        rng: np.random.Generator,
        dtypes: Sequence[int] = ALL,
        shape: Shape | None = None,
    ) -> KnownValue:
        """Add a value out of nowhere: an input, or a constant.

        Args:
            rng: Draws type, shape and numbers.
            dtypes: Element types that it may have.
            shape: Its shape; None to draw one.
        """
        dtype = random_dtype(rng, tuple(dtypes))
        if shape is None:
            shape = random_shape(rng)
        sizes = [dim for dim in shape if isinstance(dim, int)]
        if len(sizes) == len(shape) and rng.random() < 0.6:
            return self.constant(random_array(rng, dtype, tuple(sizes)), rng)
        known = self.input(dtype, shape)
        if len(sizes) == len(shape) and rng.random() < 0.15:
            array = random_array(rng, dtype, tuple(sizes))
            self.main.initializers.append(self.tensor(array, known.name))
        return known

    def input(self, dtype: int, shape: Shape) -> KnownValue:
        """Add an input of the model.

        Args:
            dtype: Element type, as ONNX numbers it.
            shape: Its shape; text is a dynamic dimension.
        """
        main = self.main
        known = KnownValue(f"x{self.prefix}{self.step}_{len(main.inputs)}", dtype, shape)
        main.inputs.append(known)
        main.values.append(known)
        return known

    def overridable(self, constant: KnownValue) -> KnownValue:
        """Add an input of the model whose default is a constant."""
        assert constant.data is not None
        known = self.input(constant.dtype, constant.data.shape)
        array = np.asarray(constant.data)
        self.main.initializers.append(self.tensor(array, known.name))
        return known

    def seal(self, value: KnownValue) -> None:
        """Keep a value for the outputs of the graph only."""
        if value in self.values:
            self.values.remove(value)
        self.sealed.append(value)

    def emit(
        self,
        operator: str,
        inputs: Sequence[KnownValue | None],
        outputs: int = 1,
        **attributes: object,
    ) -> list[KnownValue]:
        """Add a node, whose outputs follow from onnx's own inference.

        Args:
            operator: The operator.
            inputs: Its inputs; None for one that is left out.
            outputs: How many outputs it has.
            **attributes: Its attributes; None for one that is left out.

        Raises:
            UnfitError: onnx or ONNX Runtime does not take it.
        """
        try:
            return self._emit(operator, inputs, outputs, attributes)
        except UnfitError:
            if not self.precision.emulated:
                raise
        return self._emulate(operator, inputs, outputs, attributes)

    def _emulate(
        self,
        operator: str,
        inputs: Sequence[KnownValue | None],
        outputs: int,
        attributes: PlainDict,
    ) -> list[KnownValue]:
        """Add a node in float32, with Casts of bfloat16 around it."""
        low, full = self.precision.chosen(BFLOAT16), self.precision.chosen(FLOAT)
        if not any(value is not None and value.dtype == low for value in inputs):
            raise UnfitError
        wide = [self._cast(v, low, full) for v in inputs]
        made = self._emit(operator, wide, outputs, attributes)
        return [v for value in made if (v := self._cast(value, full, low)) is not None]

    def _cast(self, value: KnownValue | None, source: int, target: int) -> KnownValue | None:
        """Add a Cast if a value has the source type."""
        if value is None or value.dtype != source:
            return value
        return self._emit("Cast", [value], 1, {"to": target})[0]

    def _emit(
        self,
        operator: str,
        inputs: Sequence[KnownValue | None],
        outputs: int,
        attributes: PlainDict,
    ) -> list[KnownValue]:
        names = ["" if value is None else value.name for value in inputs]
        while names and not names[-1]:
            names.pop()
        made = [self.name() for _ in range(outputs)]
        given = {k: v for k, v in attributes.items() if v is not None}
        given |= {k: self.precision.real(given[k]) for k in ("to", "dtype") if k in given}
        try:
            node = onnx.helper.make_node(operator, names, made, f"n{made[0]}", **given)
        except ValueError:
            raise UnfitError from None  # an empty list has no type
        present = {v.name: v for v in inputs if v is not None}
        known_data = {
            k: self.tensor(v.data, k) for k, v in present.items() if v.data is not None
        }
        known_types = {name: self.type_of(v) for name, v in present.items()}
        types = infer_outputs(node, self.opset, known_types, known_data)
        real = self.precision.real
        dtypes = tuple(None if v is None else real(v.dtype) for v in inputs)
        ranks = {v.name: v.rank for v in present.values()}
        if not runs(node, dtypes, ranks, self.opset):
            raise UnfitError
        known = [known_of(name, types[name]) for name in made]
        chosen = self.precision.chosen
        return self.add(node, [replace(v, dtype=chosen(v.dtype)) for v in known])

    def add(self, node: onnx.NodeProto, outputs: Sequence[KnownValue]) -> list[KnownValue]:
        """Add a node whose outputs are known.

        Args:
            node: The node.
            outputs: Its outputs.
        """
        self.nodes.append(node)
        self.values.extend(outputs)
        return list(outputs)

    def has_attribute(self, operator: str, name: str) -> bool:
        """Whether an operator of this opset has an attribute.

        Args:
            operator: The operator.
            name: Name of the attribute.

        Raises:
            UnfitError: There is no such operator.
        """
        try:
            schema = onnx.defs.get_schema(operator, self.opset, "")
        except onnx.defs.SchemaError:
            raise UnfitError from None
        return name in schema.attributes
