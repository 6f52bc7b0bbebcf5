"""A graph under construction: its values, their types, and nodes that are known to be valid.

A step chooses values from a scope by type, rank or size. It adds only nodes that onnx infers
and that ONNX Runtime has a kernel for.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto

from onnx_passes.errors import EngineError
from onnx_passes.plain import Plain

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

    A size is a name if it is dynamic, and None if nothing is known. A constant has `data`.
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
    """Draw an element type, the common ones more often."""
    weights = np.asarray([_WEIGHTS[d] for d in among], np.float64)
    return int(rng.choice(among, p=weights / weights.sum()))


def random_array(
    rng: np.random.Generator, dtype: int, shape: tuple[int, ...]
) -> NDArray[np.generic]:
    """Draw a constant: often all zeros or ones, as rules look for; else small numbers."""
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


def read_type(name: str, found: onnx.TypeProto) -> KnownValue:
    """Return what onnx has inferred of a value."""
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


IR_VERSION = 10

_REFUSALS = (
    onnx.shape_inference.InferenceError,
    onnx.checker.ValidationError,
    onnx.defs.SchemaError,
    ValueError,
)


class CannotAddNodeError(Exception):
    """No node of this kind can be made here."""


def infer_outputs(
    node: onnx.NodeProto,
    opset: int,
    types: Mapping[str, onnx.TypeProto],
    data: Mapping[str, onnx.TensorProto],
) -> dict[str, onnx.TypeProto]:
    """Return the types and shapes of the outputs of a node, by name.

    `types` and `data` hold the inputs, and those that are constants. UnfitError if onnx
    rejects the node, or infers nothing of an output.
    """
    try:
        schema = onnx.defs.get_schema(node.op_type, opset, "")
        found = onnx.shape_inference.infer_node_outputs(
            schema,
            node,
            dict(types),
            dict(data),
            opset_imports=[onnx.helper.make_opsetid("", opset)],
            ir_version=IR_VERSION,
        )
    except _REFUSALS:
        raise CannotAddNodeError from None
    if any(not t.tensor_type.elem_type for t in found.values()) or len(found) < len(
        [name for name in node.output if name]
    ):
        raise CannotAddNodeError
    return dict(found)


def can_run_node(
    node: onnx.NodeProto,
    dtypes: Sequence[int | None],
    ranks: Mapping[str, int],
    opset: int,
) -> bool:
    """Whether the engine starts a session for this operator on these types.

    `dtypes` has None for an omitted input, `ranks` -1 for an unknown rank.
    """
    bare = onnx.NodeProto()
    bare.CopyFrom(node)
    bare.name = ""
    places = {name: f"x{place}" for place, name in enumerate(ranks)}
    bare.input[:] = ["" if not name else places[name] for name in node.input]
    bare.output[:] = [f"y{place}" for place in range(len(node.output))]
    # Omitted inputs at the end are not inputs of the node.
    typed = dict(zip(bare.input, dtypes, strict=False))
    fed = [
        onnx.helper.make_tensor_value_info(
            places[name], typed[places[name]], None if rank < 0 else [None] * rank
        )
        for name, rank in ranks.items()
    ]
    results = [onnx.ValueInfoProto(name=name) for name in bare.output]
    graph = onnx.helper.make_graph([bare], "g", fed, results)
    imports = [onnx.helper.make_opsetid("", opset)]
    proto = onnx.helper.make_model(graph, opset_imports=imports, ir_version=IR_VERSION)
    return _runs(proto.SerializeToString(deterministic=True))


@lru_cache(maxsize=20000)
def _runs(serialized: bytes) -> bool:
    import onnx_ir as ir

    from onnx_passes.runtime.ort import OnnxRuntimeEngine

    proto = onnx.ModelProto.FromString(serialized)
    try:
        inferred = onnx.shape_inference.infer_shapes(proto, check_type=True)
        with OnnxRuntimeEngine(prepacking=False).prepare(ir.from_proto(inferred)):
            return True
    except (EngineError, onnx.shape_inference.InferenceError):
        return False


@dataclass
class GraphScope:
    """One graph: the main one, or a body inside it.

    Choices are stable: leaving a step out changes what other steps choose only where they used
    what it made. That is what lets a recipe shrink. A node here also sees the values of
    `parent`. Values that are `sealed` may be returned, and no other step reads them.

    Steps choose types, which a subclass may map to others in the model, and it may have
    `further` steps. Of its floats, `native` ones have kernels of all operators.
    """

    seed: int
    opset: int
    parent: GraphScope | None = None
    step: int = 0
    prefix: str = ""
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    values: list[KnownValue] = field(default_factory=list)
    inputs: list[KnownValue] = field(default_factory=list)
    initializers: list[onnx.TensorProto] = field(default_factory=list)
    functions: list[onnx.FunctionProto] = field(default_factory=list)
    sealed: list[KnownValue] = field(default_factory=list)
    further: ClassVar[tuple[Callable[[GraphScope, np.random.Generator], None], ...]] = ()
    native: ClassVar[int] = TensorProto.FLOAT
    _made: int = 0
    _picks: int = 0

    def inner(self, seed: int, prefix: str, parent: GraphScope | None) -> GraphScope:
        """Return the scope of a body, or without a `parent` of a function."""
        return GraphScope(seed, self.opset, parent, self.step, prefix)

    def real(self, dtype: int) -> int:
        """Return the type in the model of one that a step chooses."""
        return dtype

    def chosen(self, real: int) -> int:
        """Return what a step chooses for a type in the model."""
        return real

    def begin(self, step: int) -> np.random.Generator:
        """Start a step; return its random numbers."""
        self.step, self._made, self._picks = step, 0, 0
        return np.random.default_rng([self.seed, step])

    @property
    def main(self) -> GraphScope:
        """The scope of the main graph."""
        return self if self.parent is None else self.parent.main

    def takes(
        self, step: Callable[[GraphScope, np.random.Generator], None], rng: np.random.Generator
    ) -> bool:
        """Take a step, and say if it fits; one that does not leaves nothing behind."""
        parts: list[list[Any]] = [
            *(self.nodes, self.values, self.inputs, self.initializers, self.sealed),
            *(self.main.inputs, self.main.values, self.main.initializers, self.functions),
        ]
        lengths = list(map(len, parts))
        try:
            step(self, rng)
        except CannotAddNodeError:
            for part, length in zip(parts, lengths, strict=True):
                del part[length:]
            return False
        return True

    def seen(self) -> list[KnownValue]:
        """Return the values that a node here may read."""
        return [*self.values, *(self.parent.seen() if self.parent is not None else ())]

    def name(self) -> str:
        """Return a name that nothing else has."""
        self._made += 1
        return f"{self.prefix}v{self.step}_{self._made}"

    def pick(self, fits: Callable[[KnownValue], bool]) -> KnownValue:
        """Choose a value; UnfitError if none fits."""
        self._picks += 1
        salt = f"{self.seed}/{self.step}/{self._picks}/"
        found = [value for value in self.seen() if fits(value)]
        if not found:
            raise CannotAddNodeError
        return max(found, key=lambda v: hashlib.blake2b((salt + v.name).encode()).digest())

    def pick_type(self, *dtypes: int) -> KnownValue:
        """Choose a value of one of some types, of known rank."""
        return self.pick(lambda v: v.dtype in dtypes and v.shape is not None)

    def constant(self, array: NDArray[np.generic], rng: np.random.Generator) -> KnownValue:
        """Add a constant: an initializer, or a node."""
        name = self.name()
        tensor = self.tensor(array, name)
        seen = onnx.numpy_helper.to_array(tensor).astype(array.dtype)
        known = KnownValue(name, self.chosen(tensor.data_type), tuple(array.shape), seen)
        if rng.random() < 0.6:
            self.initializers.append(tensor)
        else:
            self.nodes.append(onnx.helper.make_node("Constant", [], [name], value=tensor))
        self.values.append(known)
        return known

    def tensor(self, array: NDArray[np.generic], name: str) -> onnx.TensorProto:
        """Return a constant as the model has it."""
        # Of a scalar, numpy would make a vector.
        array = np.ascontiguousarray(array) if array.ndim else np.asarray(array)
        return onnx.numpy_helper.from_array(array, name)

    def type_of(self, value: KnownValue) -> onnx.TypeProto:
        """Return the type that a value has in the model."""
        shape = value.shape and list(value.shape)
        return onnx.helper.make_tensor_type_proto(self.real(value.dtype), shape)

    def ints(self, numbers: Sequence[int], rng: np.random.Generator) -> KnownValue:
        """Add a constant vector of int64."""
        return self.constant(np.asarray(numbers, np.int64), rng)

    def fresh(
        self,
        rng: np.random.Generator,
        dtypes: Sequence[int] = ALL,
        shape: Shape | None = None,
    ) -> KnownValue:
        """Add an input or a constant. Without `shape`, one is drawn."""
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
        """Add an input of the model; text in its shape is a dynamic dimension."""
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
        **attributes: Plain,
    ) -> list[KnownValue]:
        """Add a node, whose outputs follow from onnx's own inference.

        Inputs and attributes may be None, which omits them. UnfitError if onnx or ONNX Runtime
        rejects the node.
        """
        names = ["" if value is None else value.name for value in inputs]
        while names and not names[-1]:
            names.pop()
        made = [self.name() for _ in range(outputs)]
        given = {k: v for k, v in attributes.items() if v is not None}
        given |= {k: self.real(given[k]) for k in ("to", "dtype") if k in given}
        try:
            node = onnx.helper.make_node(operator, names, made, f"n{made[0]}", **given)
        except ValueError:
            raise CannotAddNodeError from None  # an empty list has no type
        present = {v.name: v for v in inputs if v is not None}
        known_data = {
            k: self.tensor(v.data, k) for k, v in present.items() if v.data is not None
        }
        known_types = {name: self.type_of(v) for name, v in present.items()}
        types = infer_outputs(node, self.opset, known_types, known_data)
        dtypes = tuple(None if v is None else self.real(v.dtype) for v in inputs)
        ranks = {v.name: v.rank for v in present.values()}
        if not can_run_node(node, dtypes, ranks, self.opset):
            raise CannotAddNodeError
        known = [read_type(name, types[name]) for name in made]
        return self.add(node, [replace(v, dtype=self.chosen(v.dtype)) for v in known])

    def call(
        self,
        operator: str,
        inputs: Sequence[KnownValue],
        outputs: Sequence[tuple[int, Shape | None]],
        domain: str | None = None,
        **attributes: Plain,
    ) -> list[KnownValue]:
        """Add a node whose outputs have these types and shapes; onnx is not asked."""
        made = [KnownValue(self.name(), *each) for each in outputs]
        node = onnx.helper.make_node(
            operator,
            [value.name for value in inputs],
            [value.name for value in made],
            f"n{made[0].name}",
            domain=domain,
            **attributes,
        )
        return self.add(node, made)

    def add(self, node: onnx.NodeProto, outputs: Sequence[KnownValue]) -> list[KnownValue]:
        """Add a node whose outputs are known."""
        self.nodes.append(node)
        self.values.extend(outputs)
        return list(outputs)

    def has_attribute(self, operator: str, name: str) -> bool:
        """Whether an operator has an attribute; UnfitError without such an operator."""
        try:
            schema = onnx.defs.get_schema(operator, self.opset, "")
        except onnx.defs.SchemaError:
            raise CannotAddNodeError from None
        return name in schema.attributes


def static(
    scope: GraphScope, *dtypes: int, least: int = 0
) -> tuple[KnownValue, tuple[int, ...]]:
    """Choose a value of known sizes, whose rank is at least `least`."""
    value = scope.pick(
        lambda v: v.dtype in dtypes and v.static is not None and v.rank >= least
    )
    assert value.static is not None
    return value, value.static


def ranked(scope: GraphScope, *dtypes: int, least: int = 1) -> KnownValue:
    """Choose a value of known rank, which is at least `least`."""
    return scope.pick(lambda v: v.dtype in dtypes and v.rank >= least)


def axis_of(rng: np.random.Generator, rank: int) -> int:
    """Draw an axis, counted from either end."""
    return int(rng.integers(-rank, rank))
