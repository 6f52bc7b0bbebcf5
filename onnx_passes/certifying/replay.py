"""Run small models on an engine, in a process that may be ended, and compare their results."""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

import numpy as np
import onnx
import onnx_ir as ir
from onnx_ir.passes.common import InlinePass

from onnx_passes.arrays import Array
from onnx_passes.certifying.proof import Counterexample
from onnx_passes.contracts import Equality, Tolerance
from onnx_passes.errors import (
    EngineCrashedError,
    EngineError,
    EngineMemoryError,
    EngineTimeoutError,
    UnsupportedModelError,
)
from onnx_passes.model.walk import all_nodes, all_tensors
from onnx_passes.ops.call import Tensor, constant
from onnx_passes.ops.domains.concrete import UNKNOWN, ConcreteSemantics
from onnx_passes.ops.evaluation import concrete_shape, evaluate
from onnx_passes.ops.operator_class import operator_of
from onnx_passes.ops.semantics import MALFORMED, Misfit, Unsupported, is_float, scalars
from onnx_passes.runtime.engine_base import Engine, Session
from onnx_passes.runtime.engines import engine_from_config
from onnx_passes.runtime.reference import ReferenceEngine
from onnx_passes.verify.judge import Promise, describe
from onnx_passes.verify.rounding import agree_in_double, is_rounding

Feeds: TypeAlias = Mapping[str, Array]
Result: TypeAlias = "list[Array] | EngineFailure"

_SECONDS = 120.0
_UNKNOWN = ("No Op registered", "is not a registered function/op")
# Its Scan wants shapes that its own inference does not find for every operator.
_LACKS = ("Could not find an impl", "Subgraph must have the shape set")


@cache
def _engine(*, apart: bool) -> Engine:
    # As in the gate: a weight in a layout of its own has another kernel than a computed one.
    options = {"prepacking": False, "isolate": apart}
    return engine_from_config(
        "onnxruntime", options | ({"time_limit": _SECONDS} if apart else {})
    )


@dataclass(frozen=True, slots=True)
class EngineFailure:
    """Why an engine has no result.

    A failure that is `missing` says nothing about the model: there is no kernel, or time or
    memory ran out.
    """

    message: str
    missing: bool = False
    crashed: bool = False

    @classmethod
    def of(cls, error: EngineError) -> EngineFailure:
        """Return what an error of the engine means."""
        message, stopped = error.message, (EngineTimeoutError, EngineMemoryError)
        lacks = isinstance(error, UnsupportedModelError) and not any(
            text in message for text in _UNKNOWN
        )
        missing = lacks or isinstance(error, stopped) or any(t in message for t in _LACKS)
        return cls(message[:300], missing, isinstance(error, EngineCrashedError))


class PairRunner:
    """Two models with the same inputs, run side by side without the engine's own rewrites.

    If it is `apart`, the engine has a process of its own. What crashes it is a failure of one
    model on one sample, and the next one finds another process.
    """

    apart = True

    def __init__(self, models: tuple[ir.Model, ir.Model]) -> None:
        """Prepare the models; sessions are made when they are first run."""
        self._models = models
        self._sessions: list[Session | EngineFailure | None] = [None, None]
        self._open = ExitStack()
        weakref.finalize(self, self._open.close).atexit = False

    def run(self, feeds: Feeds) -> tuple[Result, Result]:
        """Return what the two models make of some inputs."""
        return self._run(0, feeds), self._run(1, feeds)

    def _run(self, side: int, feeds: Feeds) -> Result:
        session, model = self._sessions[side], self._models[side]
        if _never_ends(model, feeds):
            return EngineFailure(EMPTY, missing=True)
        if session is None:
            try:
                session = self._open.enter_context(_engine(apart=self.apart).prepare(model))
            except EngineError as error:
                session = EngineFailure.of(error)
            self._sessions[side] = session
        return (
            session if isinstance(session, EngineFailure) else _results(session, model, feeds)
        )


def run_once(model: ir.Model, feeds: Feeds, *, apart: bool = False) -> Result:
    """Run a model, in this process unless ``apart``: an integer division by 0 ends it."""
    try:
        with _engine(apart=apart).prepare(model) as session:
            return _results(session, model, feeds)
    except EngineError as error:
        return EngineFailure.of(error)


def _results(session: Session, model: ir.Model, feeds: Feeds) -> Result:
    wanted = {str(value.name) for value in model.graph.inputs}
    try:
        found = session.run({k: np.asarray(v) for k, v in feeds.items() if k in wanted})
    except EngineError as error:
        return EngineFailure.of(error)
    return [np.asarray(found[str(value.name)]) for value in model.graph.outputs]


EMPTY = "an empty operand of a kernel that divides by its sizes, or never ends"
_DIVIDES = ("Attention", "MultiHeadAttention", "GroupNormalization", "Conv")
"""Operators that make ONNX Runtime 1.31.1 end the process or hang (Conv of no channel)."""


def _never_ends(model: ir.Model, feeds: Feeds) -> bool:
    """Whether a model convolves, and an image or weights may have no channel."""
    arrays = [*feeds.values(), *(tensor.numpy() for tensor in all_tensors(model))]
    empty = any(array.ndim > 2 and array.shape[1] == 0 for array in arrays)
    return empty and any(node.op_type == _DIVIDES[-1] for node in all_nodes(model))


def infer_by_running(
    node: ir.Node, known: Mapping[ir.Value, Tensor], domains: Mapping[str, int]
) -> tuple[Tensor, ...]:
    """Run one node on inputs of ones, and return its results with their values unknown.

    `known` has numbers for inputs that are constant, and the node's outputs need names.
    Unsupported if the engine does not run it.
    """
    inputs, arrays = [], []
    for value in node.inputs:
        if value is None:
            continue
        tensor = known[value]
        if node.op_type in _DIVIDES and 0 in tensor.shape:
            raise Unsupported(EMPTY)
        data = [1 if s is UNKNOWN else s for s in tensor.data.flat]
        arrays.append(np.array(data, tensor.dtype.numpy()).reshape(tensor.shape))
        inputs.append((str(value.name), int(tensor.dtype), tensor.shape))
    proto = ir.to_proto(node)
    graph = onnx.helper.make_graph(
        [proto],
        "node",
        [onnx.helper.make_tensor_value_info(*each) for each in dict.fromkeys(inputs)],
        [onnx.ValueInfoProto(name=name) for name in proto.output],
    )
    opsets = [onnx.helper.make_opsetid(d, v) for d, v in sorted(domains.items())]
    model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=10)
    constants = tuple(a.tobytes() for a in arrays if a.dtype == np.int64)
    key = model.SerializeToString(deterministic=True), constants
    if key not in _INFERRED:
        by_name = dict(zip([n for n in proto.input if n], arrays, strict=True))
        _INFERRED[key] = run_once(ir.from_proto(model), by_name, apart=True)
    results = _INFERRED[key]
    if isinstance(results, EngineFailure):
        raise Unsupported(f"{proto.op_type} that the engine does not run: {results.message}")
    return tuple(
        Tensor(scalars([UNKNOWN] * r.size, r.shape), ir.DataType.from_numpy(r.dtype))
        for r in results
    )


_INFERRED: dict[tuple[bytes, tuple[bytes, ...]], Result] = {}
"""What nodes gave whose results were inferred, by model and constants."""


# Over the reals a counterexample must stand clear of rounding: this share of the largest
# value is far above what a kernel loses on tensors of a few elements.
_CLEAR = {ir.DataType.FLOAT16: 2e-2, ir.DataType.BFLOAT16: 1e-1, ir.DataType.FLOAT: 1e-3}
_EQUAL = Promise(Equality())
_SPECIAL = (0.0, -0.0, 1.0, -1.0, 0.5, 3.0, np.inf, -np.inf, np.nan, 1e-7, 6e4)


_ORDER_NAN = {
    *("ArgMax", "ArgMin", "GlobalMaxPool", "Max", "MaxPool", "Min"),
    *("ReduceMax", "ReduceMin", "TopK"),
}
"""Operators whose order of NaN onnx leaves open: kernels of one engine differ."""

NAN_ORDERS, ENGINE_FAULTS = "nan_orders", "engine_faults"
"""Differences that are the engine's own."""


class Replayer:
    """Both sides of a rewrite, ready to run on ONNX Runtime without its own rewrites.

    They run in their own types, and each value below float32 is rounded where the model says.
    """

    def __init__(self, before: ir.Model, after: ir.Model) -> None:
        """Prepare two models with the same inputs and outputs."""
        self._models = before, after
        self._runner = PairRunner(self._models)
        self.outputs = [str(o.name) for o in before.graph.outputs]
        self.inputs = list(before.graph.inputs)
        self._bits = _exact_bits(self._models)
        self._orders_nan = any(
            n.op_type in _ORDER_NAN for m in self._models for n in all_nodes(m)
        )
        self.excused: Counter[str] = Counter()

    def compare(self, feeds: Feeds, *, real: bool) -> Counterexample | None:
        """Return a counterexample if the two sides differ on ``feeds``.

        With `real`, a difference must exceed rounding, by its size and by the running error of
        both sides, and both sides must be finite. Else floats are compared bit for bit, with
        NaN equal to NaN and -0 to 0. What is the engine's own is counted in `excused`: how
        kernels order NaN, and what is equal as the standard defines the operators.
        """
        return self._first([feeds], real)

    def search(self, count: int, *, real: bool, seed: int = 0) -> Counterexample | None:
        """Try ``count`` random inputs and return the first counterexample; see `compare`."""
        feeds = list(samples(self.inputs, count, special=not real, seed=seed))
        return self._first(feeds, real)

    def is_rounding(
        self, feeds: Feeds, expected: Mapping[str, Array], actual: Mapping[str, Array]
    ) -> bool:
        """Whether rounding explains all that differs; what is exact must be equal."""
        return all(
            is_rounding(*self._models, feeds, array, actual[name], name)
            for name, array in expected.items()
            if difference(array, actual[name], real=False) is not None
        )

    def failures(self, feeds: Feeds) -> tuple[EngineFailure | None, EngineFailure | None]:
        """Return why the graphs do not run, one by one; None where one does."""
        before, after = self._runner.run(feeds)
        return (
            before if isinstance(before, EngineFailure) else None,
            after if isinstance(after, EngineFailure) else None,
        )

    def runs(self, feeds: Feeds) -> str | None:
        """Return why one of the graphs does not run, or None where both do."""
        found = next(filter(None, self.failures(feeds)), None)
        return None if found is None else found.message

    def _first(self, candidates: Sequence[Feeds], real: bool) -> Counterexample | None:
        for given in candidates:
            feeds = {name: _within(array, self._bits) for name, array in given.items()}
            before, after = self._runner.run(feeds)
            if isinstance(before, EngineFailure):
                continue
            expected = dict(zip(self.outputs, before, strict=True))
            if isinstance(after, EngineFailure):
                if after.missing:
                    return None
                if (
                    self._agree_by_reference(feeds, real)
                    or _by_standard(self._models[0], feeds) == []
                ):
                    self.excused[ENGINE_FAULTS] += 1
                    continue
                reason = f"the rewritten graph does not run: {after.message}"
                return Counterexample(feeds, expected, {}, reason)
            actual = dict(zip(self.outputs, after, strict=True))
            for name in self.outputs:
                found = difference(expected[name], actual[name], real=real)
                explained = found is None or (
                    real
                    and (
                        self.is_rounding(feeds, expected, actual)
                        or agree_in_double(*self._models, feeds, name)
                    )
                )
                if explained:
                    continue
                exact = _is_exact(expected[name], actual[name])
                if self._is_order_of_nan(feeds, real):
                    self.excused[NAN_ORDERS] += 1
                    break
                if (real or exact) and self._is_of_engine(feeds, real):
                    self.excused[ENGINE_FAULTS] += 1
                    break
                text = f"output {name}: {found}"
                return Counterexample(feeds, expected, actual, text)
        return None

    def _is_order_of_nan(self, feeds: Feeds, real: bool) -> bool:
        """Whether all that differs is how operators order NaN of the inputs."""
        if not self._orders_nan:
            return False
        filled = {name: with_ones(array, np.isnan) for name, array in feeds.items()}
        changed = any(filled[name] is not array for name, array in feeds.items())
        return changed and self._first([filled], real) is None

    def _agree_by_reference(self, feeds: Feeds, real: bool) -> bool:
        """Whether onnx's evaluator finds both equal where kernels have ways of their own.

        That is where an operand is empty, or not finite.
        """
        arrays = [*feeds.values(), *(t.numpy() for t in all_tensors(self._models[0]))]
        if all(array.size and with_ones(array, _is_odd) is array for array in arrays):
            return False
        sides = []
        try:
            for each in self._models:
                with ReferenceEngine().prepare(each) as session:
                    sides.append(list(session.run(feeds).values()))
        except EngineError:
            return False
        return all(
            difference(np.asarray(old), np.asarray(new), real=real) is None
            for old, new in zip(*sides, strict=True)
        )

    def _is_of_engine(self, feeds: Feeds, real: bool) -> bool:
        """Whether both sides are equal by the standard, or it does not admit the original."""
        before, after = (_by_standard(model, feeds) for model in self._models)
        if before is None or after is None:
            return self._agree_by_reference(feeds, real)
        return before == [] or (
            bool(before and after)
            and all(
                difference(old, new, real=real) is None
                for old, new in zip(before, after, strict=True)
            )
        )


def _is_odd(array: Array) -> Array:
    odd: Array = ~np.isfinite(array)
    return odd


def _is_exact(expected: Array, actual: Array) -> bool:
    """Whether no rounding makes a difference: of integers, or of a side that is not finite."""
    if not is_float(ir.DataType.from_numpy(expected.dtype)) or expected.shape != actual.shape:
        return True
    finite = (np.isfinite(side.astype(np.float64)) for side in (expected, actual))
    return bool(np.any(np.not_equal(*finite)))


def _by_standard(model: ir.Model, feeds: Feeds) -> list[Array] | None:
    """Return the results without an engine; none if the operands do not fit.

    None if an operator is only known to engines.
    """
    flat, semantics = model, ConcreteSemantics()
    if model.functions:
        flat = model.clone()
        InlinePass()(flat)
    tensors = {
        name: constant(array, ir.DataType.from_numpy(array.dtype), semantics)
        for name, array in feeds.items()
    }
    try:
        found = evaluate(flat.graph, tensors, semantics).values()
        # An array of no element may be one of objects.
        return [t.data if t.data.size else t.data.astype(t.dtype.numpy()) for t in found]
    except Misfit:
        return []
    except (Unsupported, *MALFORMED):
        return None


def with_ones(array: Array, odd: Callable[[Array], Array]) -> Array:
    """Return an array with ones for floats that are odd; itself if it has none."""
    if array.dtype.kind in "biuOSU":
        return array
    found = odd(array.astype(np.float64))
    return np.where(found, np.ones((), array.dtype), array) if found.any() else array


def _exact_bits(models: Iterable[ir.Model]) -> int | None:
    """Return up to how many bits the engine computes integers as the standard says."""
    described = (operator_of(node) for model in models for node in all_nodes(model))
    return min((o.exact_bits for o in described if o and o.exact_bits), default=None)


def _within(array: Array, bits: int | None) -> Array:
    """Return an array whose integers have at most so many bits; None for any number."""
    if bits is None or array.dtype.kind not in "iu" or 8 * array.dtype.itemsize <= bits:
        return array
    end = 2**bits - 1
    # Of a scalar, numpy makes a number.
    return np.asarray(np.clip(array, 0 if array.dtype.kind == "u" else -end, end))


def samples(
    values: Sequence[ir.Value], count: int, *, special: bool, seed: int
) -> Iterator[dict[str, Array]]:
    """Yield random inputs: small integers first, then halves, then normals.

    Small integers stored as floats are exact, so that a difference is never rounding's.
    `special` mixes in NaN, infinities and signed zeros. Shapes must be concrete.
    """
    rng = np.random.default_rng(seed)
    for k in range(count):
        yield {
            str(v.name): _sample(v, rng, k, special=special)
            for v in values
            if v.dtype is not None
        }


def _sample(value: ir.Value, rng: np.random.Generator, k: int, *, special: bool) -> Array:
    shape, dtype = concrete_shape(value), value.dtype
    assert dtype is not None
    if dtype == ir.DataType.BOOL:
        return rng.integers(0, 2, shape).astype(np.bool_)
    if not is_float(dtype):
        low = -9 if dtype.is_signed() else 0
        numbers = rng.integers(low, 10, shape)
        if special:
            info = np.iinfo(dtype.numpy())
            extreme = rng.random(shape) < 0.25
            picked = rng.choice(np.array([info.min, info.max], dtype.numpy()), shape)
            return np.where(extreme, picked, numbers.astype(dtype.numpy()))
        return numbers.astype(dtype.numpy())
    floats = (
        rng.integers(-8, 9, shape).astype(np.float64)
        if k % 3 == 0
        else rng.integers(-16, 17, shape) / 4
        if k % 3 == 1
        else rng.standard_normal(shape)
    )
    if special and k % 2:
        floats = np.where(
            rng.random(shape) < 0.4, rng.choice(np.array(_SPECIAL), shape), floats
        )
    with np.errstate(over="ignore"):
        return np.asarray(floats).astype(dtype.numpy())


def difference(expected: Array, actual: Array, *, real: bool) -> str | None:
    """Return what differs between two results, or None.

    Shapes and types count first, so that broadcasting never hides a difference. With ``real``,
    floats may differ by a share of the largest that depends on their type, and elements that
    are not finite in ``expected`` do not count.
    """
    promise = _EQUAL
    if real and expected.dtype.kind not in "biuOSU" and expected.shape == actual.shape:
        share = _CLEAR.get(ir.DataType.from_numpy(expected.dtype), 1e-6)
        promise = Promise(Tolerance(share, share * 1e-3), inside=True)
        finite = np.isfinite(expected.astype(np.float64))
        expected, actual = (
            np.where(finite, side, np.zeros((), side.dtype)) for side in (expected, actual)
        )
    broken = promise.broken({"": expected}, {"": actual})
    if not broken:
        return None
    (found,) = broken
    if found.worst is None:
        return f"the {found.reason}"
    return f"element {list(found.worst)} is {found.actual}, expected {found.expected}"


_ORDINARY = 1e3
"""Inputs up to this size; behind infinities and overflow no tolerance is kept by anyone."""


def errors_of(found: Counterexample) -> dict[str, float]:
    """Return the errors of float outputs, by type, as a share of their largest element.

    Empty where inputs are not ordinary.
    """
    wide = [a.astype(np.float64) for a in found.feeds.values() if a.dtype.kind not in "biu"]
    if not all(np.all(np.abs(array) <= _ORDINARY) for array in wide):
        return {}
    errors: dict[str, float] = {}
    for name, expected in found.expected.items():
        actual = found.actual.get(name)
        if actual is None or expected.dtype.kind in "biuOSU" or actual.shape != expected.shape:
            continue
        old, new = expected.astype(np.float64), actual.astype(np.float64)
        finite = np.isfinite(old) & np.isfinite(new)
        gap = float(np.max(np.abs(old[finite] - new[finite]), initial=0.0))
        largest = float(np.max(np.abs(old[finite]), initial=0.0))
        key = str(expected.dtype)
        errors[key] = max(errors.get(key, 0.0), gap / largest if largest else 0.0)
    return errors


def exceeds(
    found: Counterexample, declared: Tolerance, low: Mapping[str, Tolerance]
) -> str | None:
    """Return in one sentence which output breaks a declared tolerance, or None.

    As for tensors inside a model, the relative part is taken of the largest element. Elements
    that are not finite on one of the sides do not count. None in `declared` means the default.
    `low` has tolerances of outputs that depend on values below float32.
    """
    promise = Promise(declared, overrides=low if declared == Tolerance() else {}, inside=True)
    for name, expected in found.expected.items():
        actual = found.actual.get(name)
        if actual is None or expected.dtype.kind in "biuOSU" or actual.shape != expected.shape:
            continue
        sides = (expected.astype(np.float64), actual.astype(np.float64))
        finite = np.isfinite(sides[0]) & np.isfinite(sides[1])
        broken = promise.broken({name: expected[finite]}, {name: actual[finite]})
        if broken:
            return f"{expected.dtype} output {name} breaks {declared}: {describe(broken[0])}"
    return None
