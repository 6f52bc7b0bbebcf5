"""How far off each application of a rule is by itself: its nodes, before and after.

Both pieces of an application get the values that were recorded in the model before the pass,
so that a fault in one does not show in another, and what they compute is compared. Where an
application reads what an earlier one has put there, it reads the earlier one's new value on
both sides.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnx_passes.contracts import Equality, Tolerance
from onnx_passes.errors import EngineError
from onnx_passes.graph.copy import copy_nodes
from onnx_passes.passes.context import Application
from onnx_passes.runtime.base import Array, Data, Engine, Outputs
from onnx_passes.verify.compare import compare
from onnx_passes.verify.result import OutputCheck
from onnx_passes.verify.score import score
from onnx_passes.verify.witness import Pieces, Side


@dataclass(frozen=True)
class LocalScore:
    """What one application does to the values that it replaces.

    Attributes:
        application: Its record.
        score: Largest error over its values, as ``verify.score`` has it; 0 is perfect.
        checks: The comparison of each value, under the names of the values replaced.
    """

    application: Application
    score: float
    checks: tuple[OutputCheck, ...]

    @property
    def passed(self) -> bool:
        """Whether it keeps the contract that it was held to."""
        return all(check.passed for check in self.checks)

    @property
    def worst(self) -> OutputCheck:
        """The comparison that tells most."""
        return max(self.checks, key=lambda c: (not c.passed, c.max_abs or 0.0))


def boundary(pieces: Iterable[Pieces]) -> list[str]:
    """Return the names of all values that some application reads from around it."""
    names: dict[str, None] = {}
    for piece in pieces:
        for side in (piece.old, piece.new):
            names.update((str(value.name), None) for value in side.read())
    return list(names)


def local_scores(
    model: ir.Model,
    pieces: Sequence[Pieces],
    values: Mapping[str, Data],
    engine: Engine,
    contract: Equality | Tolerance,
    overrides: Mapping[str, Tolerance] | None = None,
) -> list[LocalScore | None]:
    """Hold every application against what it replaced, all of them in one session.

    Where the engine refuses that session, which one wrong application can cause, each
    application gets one of its own.

    Args:
        model: A model with the opset imports and functions that the nodes need.
        pieces: The applications, in order.
        values: Values recorded in the model before the pass, by name.
        engine: What runs them.
        contract: What each must keep; tolerances refer to the largest element of a value.
        overrides: Tolerances of single values.

    Returns:
        For each application its score; None where it reads what was not recorded, or what it
        replaced does not run by itself.
    """
    arrays = {name: v for name, v in values.items() if isinstance(v, np.ndarray)}
    plan = _Plan(model, arrays)
    known = [plan.add(piece) for piece in pieces]
    found = _run(plan, [index for index, ok in enumerate(known) if ok], engine)
    scores: list[LocalScore | None] = []
    for index, piece in enumerate(pieces):
        pair = found.get(index)
        if pair is None:
            scores.append(None)
            continue
        old, new = pair
        if new is None:
            broken = OutputCheck(piece.application.replaced[0][0], False, "it does not run")
            scores.append(LocalScore(piece.application, math.inf, (broken,)))
            continue
        checks = compare(
            old, new, contract, overrides=overrides, scale_by_max=True, negative_zero=True
        )
        size = score([old], [new], frozenset())
        scores.append(LocalScore(piece.application, size, checks))
    return scores


Pair = tuple[Outputs, Outputs | None]


def _run(plan: _Plan, indices: Sequence[int], engine: Engine) -> dict[int, Pair]:
    """Return the outputs of both sides by application."""
    if not indices:
        return {}
    try:
        found = plan.run([(index, new) for index in indices for new in (False, True)], engine)
    except EngineError:
        return _one_by_one(plan, indices, engine)
    return {i: (found[i, False], found[i, True]) for i in indices}


def _one_by_one(plan: _Plan, indices: Sequence[int], engine: Engine) -> dict[int, Pair]:
    pairs: dict[int, Pair] = {}
    for index in indices:
        try:
            old = plan.run([(index, False)], engine)[index, False]
        except EngineError:
            continue
        try:
            new = plan.run([(index, True)], engine)[index, True]
        except EngineError:
            new = None
        pairs[index] = old, new
    return pairs


Half = tuple[int, bool]


class _Plan:
    """The sides of all applications, joined where one reads another's values."""

    def __init__(self, model: ir.Model, arrays: Mapping[str, Array]) -> None:
        self.model, self.arrays = model, arrays
        self.halves: dict[Half, Side] = {}
        self.needs: dict[Half, set[int]] = {}
        self.fresh: dict[str, int] = {}
        self.names: list[list[str]] = []

    def add(self, piece: Pieces) -> bool:
        """Take in an application; return whether all that it reads is known."""
        index = len(self.names)
        self.names.append([name for name, _ in piece.application.replaced])
        known = True
        for new, side in ((False, piece.old), (True, piece.new)):
            names = {str(v.name) for v in side.read()} - self.arrays.keys()
            known = known and names <= self.fresh.keys()
            self.halves[index, new] = side
            self.needs[index, new] = {self.fresh[name] for name in names & self.fresh.keys()}
        if known:
            made = (v for node in piece.new.nodes for v in node.outputs)
            self.fresh.update((str(v.name), index) for v in made if v.name)
        return known

    def run(self, wanted: Sequence[Half], engine: Engine) -> dict[Half, Outputs]:
        """Run some sides, and the new sides that they read from, in one session."""
        graph = _Joined(self.arrays)
        for half in self._with_needs(wanted):
            graph.add(half, self.halves[half])
        session_model = graph.model(self.model, [(h, self.halves[h]) for h in wanted])
        produced: Outputs = {}
        if session_model.graph.outputs:
            with engine.prepare(session_model) as session:
                produced = session.run(graph.feeds())
        return {
            half: graph.outputs(self.halves[half], produced, self.names[half[0]])
            for half in wanted
        }

    def _with_needs(self, wanted: Sequence[Half]) -> list[Half]:
        found, pending = set(wanted), list(wanted)
        while pending:
            for index in self.needs[pending.pop()]:
                half = (index, True)
                if half not in found:
                    found.add(half)
                    pending.append(half)
        return sorted(found)


class _Joined:
    """One graph of many sides. Its nodes are copies, so that sides can be used again."""

    def __init__(self, arrays: Mapping[str, Array]) -> None:
        self.arrays = arrays
        self.entries: dict[str, ir.Value] = {}
        self.initializers: dict[int, ir.Value] = {}
        self.nodes: list[ir.Node] = []
        self.fresh: dict[str, ir.Value] = {}
        self.stands: dict[ir.Value, ir.Value] = {}

    def add(self, half: Half, side: Side) -> None:
        nodes, values = copy_nodes(side.nodes)
        made = {out for node in nodes for out in node.outputs}
        label = f"{half[0]}.{'new' if half[1] else 'old'}"
        for value, copy in values.items():
            if copy in made:
                # Declared types and shapes are claims of the model; here the engine infers.
                copy.type = copy.shape = copy.const_value = None
                if copy.name:
                    copy.name = f"{label}.{copy.name}"
                self.stands[value] = copy
        for value in side.read():
            self._link(value, values.get(value))
        for value, tensor in side.fixed.items():
            entry = self._fixed(tensor)
            self.stands[value] = entry
            if value in values:
                values[value].replace_all_uses_with(entry)
        self.nodes += nodes
        if half[1]:
            for node in side.nodes:
                for value in node.outputs:
                    if value.name and str(value.name) not in self.arrays:
                        self.fresh[str(value.name)] = self.stands[value]

    def _link(self, value: ir.Value, copy: ir.Value | None) -> None:
        name = str(value.name)
        entry = self.fresh.get(name) if name not in self.arrays else self._entry(name)
        assert entry is not None
        self.stands[value] = entry
        if copy is not None:
            copy.replace_all_uses_with(entry)

    def _entry(self, name: str) -> ir.Value:
        if name not in self.entries:
            array = self.arrays[name]
            self.entries[name] = ir.Value(
                name=name,
                type=ir.TensorType(ir.DataType.from_numpy(array.dtype)),
                shape=ir.Shape([None] * array.ndim),
            )
        return self.entries[name]

    def _fixed(self, tensor: ir.TensorProtocol) -> ir.Value:
        if id(tensor) not in self.initializers:
            self.initializers[id(tensor)] = ir.Value(
                name=f"constant.{len(self.initializers)}",
                type=ir.TensorType(tensor.dtype),
                shape=ir.Shape(tensor.shape),  # type: ignore[arg-type]
                const_value=tensor,
            )
        return self.initializers[id(tensor)]

    def model(self, like: ir.Model, wanted: Sequence[tuple[Half, Side]]) -> ir.Model:
        computed = {out for node in self.nodes for out in node.outputs}
        outputs = dict.fromkeys(
            self.stands[value]
            for _, side in wanted
            for value in side.outputs
            if self.stands[value] in computed
        )
        graph = ir.Graph(
            list(self.entries.values()),
            list(outputs),
            nodes=self.nodes,
            initializers=list(self.initializers.values()),
            opset_imports=dict(like.opset_imports),
            name="applications",
        )
        functions = [function.clone() for function in like.functions.values()]
        return ir.Model(graph, ir_version=like.ir_version, functions=functions)

    def feeds(self) -> dict[str, Array]:
        return {name: self.arrays[name] for name in self.entries}

    def outputs(self, side: Side, produced: Outputs, names: Sequence[str]) -> Outputs:
        """Return the values that count, under the names of those replaced."""
        found: Outputs = {}
        for name, value in zip(names, side.outputs, strict=True):
            standing = self.stands[value]
            if standing.const_value is not None:
                found[name] = standing.const_value.numpy()
            elif self.entries.get(str(standing.name)) is standing:
                found[name] = self.arrays[str(standing.name)]
            else:
                found[name] = produced[str(standing.name)]
        return found
