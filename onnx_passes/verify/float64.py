"""A model evaluated in double precision, node by node: what float32 results are held against.

Every number of 16 or 32 bits becomes one of 64. ONNX Runtime computes each node that it has a
double kernel for; it is asked. Convolutions and global maxima are computed here, and the
others by the descriptions of operators in ``ops``. onnx's reference evaluator takes what is
left. What that cannot do either is computed in single precision, and counted.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import ml_dtypes
import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import float_limits
from onnx_passes.errors import EngineError, TooMuchWorkError
from onnx_passes.model.barriers import LOW, types_of
from onnx_passes.model.copy import copy_model
from onnx_passes.model.walk import all_nodes, captured_values
from onnx_passes.ops.bodies import attach_to_model, has_body
from onnx_passes.ops.randomness import may_draw
from onnx_passes.runtime.engine_base import Array, Data, Feeds, Outputs
from onnx_passes.runtime.value_types import infer_types
from onnx_passes.verify.float64_node import DoubleNode
from onnx_passes.verify.recording import inlined
from onnx_passes.verify.upcast import widened

_WIDE = (ir.DataType.FLOAT, ir.DataType.DOUBLE)
_TRIALS = 8
"""Evaluations with random roundings. Of 4, one in 800 elements is moved too little."""


@dataclass
class WideEvaluation:
    """What an evaluation gave.

    Attributes:
        outputs: Outputs of each sample.
        reference: Nodes that onnx's reference evaluator computed, by operator.
        single: Nodes that were computed in single precision, by operator.
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

    Attributes:
        seed: Decides each of them.
        low: By how many epsilons of its type, at most, a computed value below float32 moves.
        wide: The same for computed floats of 32 and 64 bits.
        constants: The same for constants, whatever their type. One that eight bits hold is
            as the author wrote it, and stays.
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

    Args:
        model: Left as it is. Weights are widened one at a time, while they are needed.
        samples: Inputs; floats of any width.
        noise: What is rounded at random; None for nothing.
        most: Products and results, on all samples, up to which it continues; None for any.

    Raises:
        EngineError: A node cannot be computed in any way.
        TooMuchWorkError: They are more than ``most``.
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
    difference of a few evaluations with random roundings from one without.

    Args:
        model: As for :func:`evaluate`, like the samples.
        samples: Inputs.
        noise: What is rounded; by default values below float32, each once. Its seed is the
            first of several.
        exact: The outputs without roundings, where they are known.
        trials: How many evaluations.

    Raises:
        EngineError: A node cannot be computed in any way.
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


__all__ = ["WideEvaluation", "evaluate"]
