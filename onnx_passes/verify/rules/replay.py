"""Run both sides on ONNX Runtime: what z3 says is a bug counts once an engine shows it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.contracts import Equality, Tolerance
from onnx_passes.model.walk import all_nodes
from onnx_passes.ops.evaluation import concrete_shape
from onnx_passes.ops.operator_class import operator_of
from onnx_passes.ops.semantics import is_float
from onnx_passes.verify.double_precision import agree_in_double, is_rounding
from onnx_passes.verify.judge import Promise
from onnx_passes.verify.rules.proof import Counterexample
from onnx_passes.verify.rules.running import EngineFailure, Feeds, PairRunner, engine_name

# Over the reals a counterexample must stand clear of rounding: this share of the largest
# value is far above what a kernel loses on tensors of a few elements.
_CLEAR = {ir.DataType.FLOAT16: 2e-2, ir.DataType.BFLOAT16: 1e-1, ir.DataType.FLOAT: 1e-3}
_EQUAL = Promise(Equality())
_SPECIAL = (0.0, -0.0, 1.0, -1.0, 0.5, 3.0, np.inf, -np.inf, np.nan, 1e-7, 6e4)


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

    def compare(self, feeds: Feeds, *, real: bool) -> Counterexample | None:
        """Return a counterexample if the two sides differ on ``feeds``.

        Args:
            feeds: A value for every input.
            real: Whether a difference must be clear of rounding, by its size and by the
                running error of both sides, and both sides finite. Else floats are compared
                bit for bit, NaN equal to NaN and -0 to 0.
        """
        return self._first([feeds], real)

    def search(self, count: int, *, real: bool, seed: int = 0) -> Counterexample | None:
        """Try ``count`` random inputs and return the first counterexample.

        Args:
            count: How many inputs are tried.
            real: Whether a difference must be clear of rounding.
            seed: Seed of the inputs.
        """
        feeds = list(samples(self.inputs, count, special=not real, seed=seed))
        return self._first(feeds, real)

    def is_rounding(
        self, feeds: Feeds, expected: Mapping[str, Array], actual: Mapping[str, Array]
    ) -> bool:
        """Whether rounding explains all that differs; what is exact must be equal.

        Args:
            feeds: Inputs by name.
            expected: Outputs of the original by name, of any shape and type.
            actual: Outputs of the rewritten graph, arrays of the same shapes by name.
        """
        return all(
            is_rounding(*self._models, feeds, array, actual[name], name)
            for name, array in expected.items()
            if difference(array, actual[name], real=False) is not None
        )

    def failures(self, feeds: Feeds) -> tuple[EngineFailure | None, EngineFailure | None]:
        """Return why the graphs do not run, one by one; None where one does."""
        ((_, before, after),) = self._runner.run([feeds])
        return (
            before if isinstance(before, EngineFailure) else None,
            after if isinstance(after, EngineFailure) else None,
        )

    def runs(self, feeds: Feeds) -> str | None:
        """Return why one of the graphs does not run, or None where both do."""
        found = next(filter(None, self.failures(feeds)), None)
        return None if found is None else found.message

    def _first(self, candidates: Sequence[Feeds], real: bool) -> Counterexample | None:
        exact = [
            {name: _within(array, self._bits) for name, array in feeds.items()}
            for feeds in candidates
        ]
        for feeds, before, after in self._runner.run(exact):
            if isinstance(before, EngineFailure):
                continue
            expected = dict(zip(self.outputs, before, strict=True))
            if isinstance(after, EngineFailure):
                if after.missing:
                    return None
                reason = f"the rewritten graph does not run: {after.message}"
                return Counterexample(feeds, expected, {}, engine_name(), reason)
            actual = dict(zip(self.outputs, after, strict=True))
            for name in self.outputs:
                found = difference(expected[name], actual[name], real=real)
                if found is not None and not (
                    real
                    and (
                        self.is_rounding(feeds, expected, actual)
                        or agree_in_double(*self._models, feeds, name)
                    )
                ):
                    text = f"output {name}: {found}"
                    return Counterexample(feeds, expected, actual, engine_name(), text)
        return None


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

    Args:
        values: The inputs; shapes must be concrete.
        count: How many samples.
        special: Whether NaN, infinities and signed zeros are mixed in.
        seed: Of the generator.
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

    Args:
        expected: An array of any shape and type.
        actual: The array that it is compared with, of any shape and type.
        real: Whether a difference must be clear of rounding.
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
