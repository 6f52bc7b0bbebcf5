"""Evaluate a model in double precision, node by node.

Results in float32 are held against it. Nodes that have no kernel for float64 are widened or
computed by numpy.
"""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import onnx
import onnx_ir as ir
from numpy.lib.stride_tricks import sliding_window_view
from onnx import AttributeProto, TensorProto

from onnx_passes.arrays import Array, DType, float_limits
from onnx_passes.errors import EngineError, TooMuchWorkError
from onnx_passes.model.copy import copy_model
from onnx_passes.model.ort_sessions import LOW, open_session, session_options, types_of
from onnx_passes.model.walk import all_nodes, captured_values
from onnx_passes.ops.bodies import attach_to_model, has_body
from onnx_passes.ops.call import constant
from onnx_passes.ops.domains.concrete import ConcreteSemantics
from onnx_passes.ops.evaluation import evaluate as evaluate_graph
from onnx_passes.ops.node_queries import may_draw
from onnx_passes.ops.semantics import MALFORMED, Unsupported
from onnx_passes.plain import PlainMapping
from onnx_passes.runtime.engine_base import Data, Feeds, Outputs
from onnx_passes.runtime.engine_models import infer_types
from onnx_passes.verify.recording import inlined

if TYPE_CHECKING:
    import onnxruntime


NARROW = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16)

_TYPE_ATTRIBUTES = ("to", "dtype", "output_datatype")
"""Attributes that name an element type."""

_SEQUENCE = "SequenceEmpty"
"""An operator of float32 by default, which its schema does not say."""


def widened(data: Data) -> Data:
    """Return data whose floats of 16 and 32 bits have 64; bytes of a text become the text."""
    if isinstance(data, list):
        return [widened(item) for item in data]
    if isinstance(data, np.ndarray) and data.dtype.kind == "S":
        return np.char.decode(data, "utf-8").astype(object)
    if isinstance(data, np.ndarray) and (
        data.dtype in (np.float32, np.float16) or data.dtype.name == "bfloat16"
    ):
        return data.astype(np.float64)
    return data


def upcast_node(node: onnx.NodeProto) -> onnx.NodeProto:
    """Return a copy of a node whose constants, types and bodies are in double precision."""
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    _upcast(copy)
    return copy


def _upcast(node: onnx.NodeProto) -> None:
    main = node.domain in ("", "ai.onnx")
    named = {attribute.name: attribute for attribute in node.attribute}
    for attribute in node.attribute:
        if attribute.type == AttributeProto.TENSOR:
            attribute.t.CopyFrom(_tensor(attribute.t))
        elif attribute.type == AttributeProto.GRAPH:
            _graph(attribute.g)
        elif attribute.type == AttributeProto.GRAPHS:
            for graph in attribute.graphs:
                _graph(graph)
    if not main:
        return
    typed, default = _element_type(node.op_type)
    if typed in named and named[typed].i in NARROW:
        named[typed].i = TensorProto.DOUBLE
    elif typed not in named and default == TensorProto.FLOAT:
        node.attribute.append(onnx.helper.make_attribute(typed, int(TensorProto.DOUBLE)))
    if node.op_type == "Constant":
        for name in ("value_float", "value_floats"):
            if name in named:
                given: Any = onnx.helper.get_attribute_value(named[name])
                _replace(node, named[name], np.asarray(given, np.float64))
    if node.op_type == "ConstantOfShape" and "value" not in named:
        tensor = onnx.numpy_helper.from_array(np.zeros(1))
        node.attribute.append(onnx.helper.make_attribute("value", tensor))


@cache
def _element_type(op_type: str) -> tuple[str, int]:
    """Return the attribute that names a type of an operator, and its default; 0 for none."""
    if op_type == "BitCast" or not onnx.defs.has(op_type):  # a BitCast keeps its bits
        return "", 0
    attributes = onnx.defs.get_schema(op_type).attributes
    name = next((name for name in _TYPE_ATTRIBUTES if name in attributes), "")
    default = attributes[name].default_value.i if name else 0
    return name, TensorProto.FLOAT if op_type == _SEQUENCE else default


def _replace(node: onnx.NodeProto, old: AttributeProto, array: Array) -> None:
    node.attribute.remove(old)
    tensor = onnx.numpy_helper.from_array(array)
    node.attribute.append(onnx.helper.make_attribute("value", tensor))


def _graph(graph: onnx.GraphProto) -> None:
    for node in graph.node:
        _upcast(node)
    for tensor in graph.initializer:
        tensor.CopyFrom(_tensor(tensor))
    del graph.value_info[:]
    for value in (*graph.input, *graph.output):
        _type(value.type)


def _type(proto: onnx.TypeProto) -> None:
    kind = proto.WhichOneof("value")
    if kind == "tensor_type" and proto.tensor_type.elem_type in NARROW:
        proto.tensor_type.elem_type = TensorProto.DOUBLE
    elif kind == "sequence_type":
        _type(proto.sequence_type.elem_type)
    elif kind == "optional_type":
        _type(proto.optional_type.elem_type)


def _tensor(tensor: TensorProto) -> TensorProto:
    if tensor.data_type not in NARROW:
        return tensor
    array = onnx.numpy_helper.to_array(tensor).astype(np.float64)
    return onnx.numpy_helper.from_array(array, tensor.name)


_WIDE = (ir.DataType.FLOAT, ir.DataType.DOUBLE)
_TRIALS = 8
"""Evaluations with random roundings. Of 4, one in 800 elements is moved too little."""


@dataclass
class WideEvaluation:
    """What an evaluation gave.

    The counters have the nodes, by operator, that onnx's reference evaluator computed, and
    those computed in single precision.
    """

    outputs: list[Outputs] = field(default_factory=list)
    reference: Counter[str] = field(default_factory=Counter)
    single: Counter[str] = field(default_factory=Counter)

    def notes(self) -> list[str]:
        """Say what was not computed by ONNX Runtime in double precision."""
        found = []
        for who, nodes in (
            ("onnx's reference evaluator computed", self.reference),
            ("computed in single precision:", self.single),
        ):
            if nodes:
                names = ", ".join(f"{n} {name}" for name, n in sorted(nodes.items()))
                found.append(f"for the float64 reference, {who} {names}")
        return found


@dataclass(frozen=True)
class RandomRoundings:
    """Random roundings that an evaluation in double precision makes.

    Each is the most by which a value moves, in epsilons of its type. ``low`` is for computed
    values below float32, ``wide`` for those of 32 or 64 bits. A constant that eight bits hold
    is as the author wrote it, and stays.
    """

    seed: int
    low: float = 0.0
    wide: float = 0.0
    constants: float = 0.0

    def of(self, dtype: ir.DataType) -> float:
        """Return how many epsilons a computed value of a type moves."""
        return self.low if dtype in LOW else self.wide if dtype in _WIDE else 0.0


def evaluate(
    model: ir.Model,
    samples: Sequence[Feeds],
    noise: RandomRoundings | None = None,
    most: int | None = None,
) -> WideEvaluation:
    """Evaluate a model in double precision.

    Weights are widened one at a time, while they are needed. ``most`` limits products and
    results on all samples, beyond which TooMuchWorkError is raised. EngineError means that a
    node cannot be computed in any way.
    """
    return _Walk(inlined(_with_bodies(model)), samples, noise, most).run()


def _with_bodies(model: ir.Model) -> ir.Model:
    """Return a copy that has the bodies of operators outside of the standard, if any."""
    if not any(has_body(node.domain, node.op_type) for node in all_nodes(model)):
        return model
    copy = copy_model(model)
    attach_to_model(copy)
    return copy


def rounding_spread(
    model: ir.Model,
    samples: Sequence[Feeds],
    noise: RandomRoundings = RandomRoundings(0, low=0.5),
    exact: Sequence[Outputs] | None = None,
    trials: int = _TRIALS,
) -> list[dict[str, Array]]:
    """Return how far random roundings move each number of the outputs, by sample.

    A Monte Carlo estimate of the running error (Parker's Monte Carlo arithmetic): the largest
    difference of a few evaluations with random roundings from one without. By default values
    below float32 are rounded, each once. The seed of ``noise`` is the first of several.
    ``exact`` are the outputs without roundings, if they are known.
    """
    exact = evaluate(model, samples).outputs if exact is None else exact
    found: list[dict[str, Array]] = [{} for _ in samples]
    for trial in range(trials):
        rounded = evaluate(model, samples, replace(noise, seed=noise.seed + trial)).outputs
        for known, moved, most in zip(exact, rounded, found, strict=True):
            for name, value in known.items():
                other = moved.get(name)
                if isinstance(value, np.ndarray) and isinstance(other, np.ndarray):
                    if value.dtype.kind not in "fiub" or value.shape != other.shape:
                        continue
                    error = np.abs(other.astype(np.float64) - value)
                    most[name] = np.fmax(most.get(name, error), error)
    return found


class _Walk:
    def __init__(
        self,
        model: ir.Model,
        samples: Sequence[Feeds],
        noise: RandomRoundings | None = None,
        most: int | None = None,
    ) -> None:
        self.graph, self.left = model.graph, most
        self.noise = RandomRoundings(0) if noise is None else noise
        self.rng = np.random.default_rng(self.noise.seed)
        computed = self.noise.low or self.noise.wide
        self.types = infer_types(model) if computed else {}
        self.imports = dict(model.graph.opset_imports)
        self.found = WideEvaluation()
        self.values: dict[ir.Value, list[Data]] = {}
        self.samples = samples
        for value in self.graph.inputs:
            name = str(value.name)
            if any(name in feeds for feeds in samples):
                default = value.const_value
                self.values[value] = [
                    widened(
                        feeds[name] if name in feeds or default is None else default.numpy()
                    )
                    for feeds in samples
                ]

    def run(self) -> WideEvaluation:
        last = self._last_uses()
        for index, node in enumerate(self.graph):
            self._compute(node)
            for value in last.get(index, ()):
                self.values.pop(value, None)
        count = len(self.samples)
        outputs = [(str(v.name), self._of(v)) for v in self.graph.outputs]
        self.found.outputs = [
            {name: data[min(k, len(data) - 1)] for name, data in outputs} for k in range(count)
        ]
        return self.found

    def _last_uses(self) -> dict[int, list[ir.Value]]:
        kept = set(self.graph.outputs)
        last: dict[ir.Value, int] = {}
        for index, node in enumerate(self.graph):
            for value in _read(node):
                last[value] = index
        found: dict[int, list[ir.Value]] = {}
        for value, index in last.items():
            if value not in kept:
                found.setdefault(index, []).append(value)
        return found

    def _of(self, value: ir.Value) -> list[Data]:
        """Return what a value is for each sample; once where it is the same for all."""
        if value not in self.values:
            tensor = value.const_value
            if tensor is None:
                raise EngineError(f"{value.name!r} has no value")
            self.values[value] = [self._moved(widened(tensor.numpy()), tensor.dtype)]
        return self.values[value]

    def _moved(self, data: Data, dtype: ir.DataType) -> Data:
        """Return a constant, rounded at random where that is asked for."""
        most = self.noise.constants
        if not most or not isinstance(data, np.ndarray) or data.dtype.kind != "f":
            return data
        with np.errstate(over="ignore"):
            short = data.astype(ml_dtypes.bfloat16).astype(np.float64) == data
        return np.where(short, data, self._scattered(data, most, dtype))

    def _scattered(self, data: Array, most: float, dtype: ir.DataType) -> Array:
        far = most * float(float_limits(dtype.numpy()).eps)
        return np.asarray(data * (1 + far * self.rng.uniform(-1, 1, data.shape)))

    def _compute(self, node: ir.Node) -> None:
        read = list(dict.fromkeys(_read(node)))
        known = [self._of(value) for value in read]
        runs = max((len(data) for data in known), default=1)
        step = DoubleNode(
            ir.serde.serialize_node(node),
            self.imports,
            self.found.reference,
            self.found.single,
            draws=may_draw(node),
        )
        made: list[list[Data]] = []
        for k in range(runs):
            fed = {
                str(v.name): data[min(k, len(data) - 1)]
                for v, data in zip(read, known, strict=True)
            }
            made.append(step.run(fed, count=k == 0))
            if self.left is not None:
                self.left -= _work(
                    node, [fed.get(str(v.name)) for v in node.inputs if v], made[-1]
                )
                if self.left < 0:
                    raise TooMuchWorkError("it takes too many operations in double precision")
        for position, value in enumerate(v for v in node.outputs if v.name):
            self.values[value] = [self._rounded(value, results[position]) for results in made]

    def _rounded(self, value: ir.Value, data: Data) -> Data:
        """Round a computed value at random, where that is asked for."""
        if not self.types or not isinstance(data, np.ndarray) or data.dtype.kind != "f":
            return data
        for dtype in types_of(value, self.types):
            if dtype is not None and (most := self.noise.of(dtype)):
                data = self._scattered(data, most, dtype)
        return data


def _work(node: ir.Node, read: Sequence[Data | None], made: Sequence[Data]) -> int:
    """Return how many numbers a node computes, with the products that they are sums of."""
    size: int = sum(data.size for data in made if isinstance(data, np.ndarray))
    shapes: list[tuple[int, ...]] = [d.shape for d in read if isinstance(d, np.ndarray)]
    if node.op_type in ("Conv", "ConvTranspose") and len(shapes) > 1 and shapes[1]:
        return size * max(1, math.prod(shapes[1][1:]))
    if node.op_type in ("Gemm", "MatMul") and shapes and shapes[0]:
        return size * shapes[0][-1]
    return max(size, sum(map(math.prod, shapes)))


def _read(node: ir.Node) -> Iterator[ir.Value]:
    for value in (*node.inputs, *captured_values(node)):
        if value is not None:
            yield value


IR_VERSION = 10
_SESSIONS = 256
"""How many sessions of one node each are kept."""
_LARGEST = 1 << 16
"""Bytes of a node whose session is kept at most."""
_NOT_DOUBLE = frozenset(
    ("Attention", "Gelu", "GroupNormalization", "LayerNormalization", "Shrink", "Sigmoid")
)
"""Operators that ONNX Runtime computes with fewer digits than doubles have.

It uses a body of floats, or, if a scale is broadcast, the mean of squares less the square of
the mean. Its Sigmoid of a negative number is one less that of its negative: 0 below -37.
"""


class DoubleNode:
    """One node, by the first way that works for it."""

    def __init__(
        self,
        node: onnx.NodeProto,
        imports: Mapping[str, int],
        reference: Counter[str],
        single: Counter[str],
        *,
        draws: bool = False,
    ) -> None:
        """Prepare a node; one that ``draws`` numbers gets a new session for each run."""
        self.narrow, self._draws = node, draws
        self.wide = upcast_node(node)
        self.imports, self._reference, self._singles = imports, reference, single

    def run(self, fed: Mapping[str, Data], *, count: bool) -> list[Data]:
        """Return the results of the node, floats as doubles; or raise EngineError."""
        operator = self.wide.op_type
        if self.wide.domain == "" and operator == "Conv":
            return [convolve(self.wide, fed)]
        if self.wide.domain == "" and operator == "GlobalMaxPool":
            (image,) = (np.asarray(data) for data in fed.values())
            axes = tuple(range(2, image.ndim))
            return [image.max(axis=axes, keepdims=True, initial=-np.inf)]
        if operator in _NOT_DOUBLE and (found := self._own(fed)) is not None:
            return found
        try:
            return self._engine(self.wide, fed)
        except Exception as error:
            reason = error
        if (found := self._own(fed)) is not None:
            return found
        single = self._single(fed)
        if self.wide.domain == "":
            try:
                results = self._evaluator(fed)
            except Exception as error:
                reason = error
            else:
                # It is wrong about some operators, such as global pools of three dimensions.
                if single is None or _shapes(results) == _shapes(single):
                    self._reference[operator] += count
                    return results
        if single is None:
            raise EngineError(f"{operator} cannot be computed in float64: {reason}")
        self._singles[operator] += count
        return single

    def _own(self, fed: Mapping[str, Data]) -> list[Data] | None:
        """Compute by the description of the operator; None if that is not enough."""
        if self.wide.domain or not all(isinstance(d, np.ndarray) for d in fed.values()):
            return None
        graph = ir.from_proto(self._model(self.wide, fed)).graph
        semantics = ConcreteSemantics()
        tensors = {
            name: constant(array, ir.DataType.from_numpy(array.dtype), semantics)
            for name, array in fed.items()
            if isinstance(array, np.ndarray)
        }
        try:
            found = evaluate_graph(graph, tensors, semantics)
        except (Unsupported, *MALFORMED):
            return None
        return [np.ascontiguousarray(found[n].data) for n in self.wide.output if n]

    def _single(self, fed: Mapping[str, Data]) -> list[Data] | None:
        """Compute in single precision; None where that cannot be done."""
        narrowed = {name: _narrowed(data) for name, data in fed.items()}
        try:
            return [widened(data) for data in self._engine(self.narrow, narrowed)]
        except Exception:
            return None

    def _engine(self, node: onnx.NodeProto, fed: Mapping[str, Data]) -> list[Data]:
        arrays = [data for data in fed.values() if isinstance(data, np.ndarray)]
        if len(arrays) < len(fed):
            raise EngineError("an input is not a tensor")
        shape = self._wide_shape if node is self.wide else self._narrow_shape
        if self._draws or shape is None or len(shape) > _LARGEST:
            return list(open_session(self._model(node, fed)).run(None, dict(fed)))
        types = tuple((data.dtype, data.ndim) for data in arrays)
        session = _kept_session(shape, types, tuple(self.imports.items()))
        if isinstance(session, str):
            raise EngineError(session)
        named = zip(_names("x", len(fed)), arrays, strict=True)
        return list(session.run(None, dict(named)))

    @cached_property
    def _wide_shape(self) -> bytes | None:
        return _without_names(self.wide)

    @cached_property
    def _narrow_shape(self) -> bytes | None:
        return _without_names(self.narrow)

    def _evaluator(self, fed: Mapping[str, Data]) -> list[Data]:
        from onnx.reference import ReferenceEvaluator

        from onnx_passes.runtime.reference_operators import ReferenceLoop, with_shapes

        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            model = with_shapes(self._model(self.wide, fed))
            evaluator = ReferenceEvaluator(model, new_ops=[ReferenceLoop])
            results = [np.asarray(r) for r in evaluator.run(None, dict(fed))]
        if any(r.dtype in (np.float32, np.float16) for r in results):
            raise EngineError("the reference evaluator computes it in single precision")
        return list(results)

    def _model(self, node: onnx.NodeProto, fed: Mapping[str, Data]) -> onnx.ModelProto:
        arrays = {name: np.asarray(data) for name, data in fed.items()}
        types = {name: (array.dtype, array.ndim) for name, array in arrays.items()}
        return _model_of(node, types, self.imports.items())


def _model_of(
    node: onnx.NodeProto,
    types: Mapping[str, tuple[DType, int]],
    imports: Iterable[tuple[str, int]],
) -> onnx.ModelProto:
    """Return a model of one node; ``types`` has the dtype and rank of what it reads."""
    inputs = [
        onnx.helper.make_tensor_value_info(
            name,
            TensorProto.STRING
            if dtype.kind in "OSU"
            else onnx.helper.np_dtype_to_tensor_dtype(dtype),
            [None] * rank,
        )
        for name, (dtype, rank) in types.items()
    ]
    outputs = [onnx.ValueInfoProto(name=name) for name in node.output if name]
    graph = onnx.helper.make_graph([node], "node", inputs, outputs)
    opsets = [onnx.helper.make_opsetid(d, v) for d, v in imports]
    return onnx.helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)


@lru_cache(maxsize=_SESSIONS)
def _kept_session(
    shape: bytes,
    types: tuple[tuple[DType, int], ...],
    imports: tuple[tuple[str, int], ...],
) -> onnxruntime.InferenceSession | str:
    """Return a session of a node without names, or why there is none.

    Random roundings evaluate a model several times, and many nodes differ in names only.
    """
    node = onnx.NodeProto.FromString(shape)
    options = session_options()
    options.enable_cpu_mem_arena = False  # it would keep the memory of the largest run
    read = dict(zip(_names("x", len(types)), types, strict=True))
    try:
        return open_session(_model_of(node, read, imports), options)
    except Exception as error:
        return str(error)


def _names(letter: str, count: int) -> list[str]:
    return [f"{letter}{index}" for index in range(count)]


def _without_names(node: onnx.NodeProto) -> bytes | None:
    """Return a node whose values are numbered; None if it holds graphs, which name values.

    An input is numbered where it is read first, as what a node is fed is in that order.
    """
    if any(a.HasField("g") or a.graphs for a in node.attribute):
        return None
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    copy.ClearField("name")
    read = list(dict.fromkeys(name for name in node.input if name))
    numbers = dict(zip(read, _names("x", len(read)), strict=True))
    for index, name in enumerate(node.input):
        copy.input[index] = numbers.get(name, "")
    for index, name in enumerate(node.output):
        copy.output[index] = name and f"y{index}"
    serialized: bytes = copy.SerializeToString(deterministic=True)
    return serialized


def _shapes(results: Sequence[Data]) -> list[tuple[int, ...]]:
    return [np.shape(data) for data in results if isinstance(data, np.ndarray)]


def _narrowed(data: Data) -> Any:
    if isinstance(data, np.ndarray) and data.dtype == np.float64:
        return data.astype(np.float32)
    return data


_AT_ONCE = 1 << 19
"""Elements of windows that are copied at once, if there are several groups."""


def convolve(node: onnx.NodeProto, fed: Mapping[str, Data]) -> Array:
    """Compute a Conv of any number of dimensions, as a product over windows.

    Inputs are x [n, c, ...], w [m, c / group, ...], and b [m] or none. A window larger than
    the padded input raises EngineError: some engines make an element of that, and the
    definition does not say which.
    """
    given = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    x, w = np.asarray(fed[node.input[0]]), np.asarray(fed[node.input[1]])
    kernel, rank = w.shape[2:], w.ndim - 2
    strides = list(given.get("strides", [1] * rank))
    dilations = list(given.get("dilations", [1] * rank))
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    pads = _pads(given, x.shape[2:], reach, strides)
    padded = np.pad(x, [(0, 0), (0, 0), *pads])
    axes = tuple(range(2, 2 + rank))
    if any(size < window for size, window in zip(padded.shape[2:], reach, strict=True)):
        raise EngineError(f"a window of Conv, {reach}, is larger than what it slides over")
    windows = sliding_window_view(padded, reach, axis=axes)
    steps = tuple(slice(None, None, s) for s in strides)
    holes = tuple(slice(None, None, d) for d in dilations)
    windows = windows[(slice(None), slice(None), *steps, *holes)]
    group = int(given.get("group", 1))
    width, made = x.shape[1] // group, w.shape[0] // group
    batch, sizes = x.shape[0], windows.shape[2 : 2 + rank]
    places, depth = batch * math.prod(sizes), width * math.prod(kernel)
    some = max(1, _AT_ONCE // max(1, places * depth))
    order = (1, 2, *range(3 + rank, 3 + 2 * rank), 0, *range(3, 3 + rank))
    parts = []
    for g in range(0, group, some):
        rows = windows[:, g * width : (g + some) * width]
        count = rows.shape[1] // max(width, 1)
        rows = rows.reshape(batch, count, width, *sizes, *kernel).transpose(order)
        columns = w[g * made : (g + some) * made].reshape(count, made, depth)
        with np.errstate(all="ignore"):
            parts.append(columns @ rows.reshape(count, depth, places))
    found = np.concatenate(parts).reshape(group * made, batch, *sizes)
    result = np.moveaxis(found, 0, 1)
    if len(node.input) > 2 and node.input[2]:
        result = result + np.asarray(fed[node.input[2]]).reshape(1, -1, *[1] * rank)
    return result


def _pads(
    given: PlainMapping, sizes: tuple[int, ...], reach: list[int], strides: list[int]
) -> list[tuple[int, int]]:
    mode = given.get("auto_pad", b"NOTSET").decode()
    rank = len(sizes)
    if mode == "NOTSET":
        pads = list(given.get("pads", [0] * 2 * rank))
        return list(zip(pads[:rank], pads[rank:], strict=True))
    if mode == "VALID":
        return [(0, 0)] * rank
    found = []
    for size, window, stride in zip(sizes, reach, strides, strict=True):
        total = max((-(-size // stride) - 1) * stride + window - size, 0)
        less = total // 2
        found.append((less, total - less) if mode == "SAME_UPPER" else (total - less, less))
    return found
