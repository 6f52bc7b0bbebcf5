"""Models from recipes: a seed and a list of steps; any step may be left out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import onnx
import onnx_ir as ir

from onnx_passes.verify.models import (
    elementwise_steps,
    planted,
    reducing_steps,
    shaping,
    structure_steps,
)
from onnx_passes.verify.models.element_types import FULL, PRECISIONS
from onnx_passes.verify.models.inferring import IR_VERSION, UnfitError
from onnx_passes.verify.models.known_values import KnownValue
from onnx_passes.verify.models.networks import FORMS as LAYERS
from onnx_passes.verify.models.networks import network
from onnx_passes.verify.models.scope import GraphScope

OPSETS = (12, 13, 15, 17, 18, 19, 20, 21, 22, 23, 23, 24, 24)
TRIES = 8
PLANTED = 0.4
"""Share of the steps that plant what passes look for, or a near miss of it."""
LOWERED = 0.35
"""Share of the steps of low precision, in models that have such."""
ANY = "any"
"""Kind of the recipes whose steps are of every sort."""
NETWORK = "qonnx"
"""Kind of the recipes whose models are quantised networks with operators of QONNX."""
ANNOTATED = 0.3
"""Share of the models that state the types of inner values, and of those with descriptions."""

_STEPS: tuple[structure_steps.Step, ...] = (
    *elementwise_steps.STEPS,
    *shaping.STEPS,
    *reducing_steps.STEPS,
    *structure_steps.STEPS,
    *structure_steps.STEPS,
)


@dataclass(frozen=True)
class Recipe:
    """What one random model is made of. The same recipe always makes the same model.

    Attributes:
        seed: Of all choices.
        steps: Numbers of the steps taken; each adds a few nodes.
        precision: Kind of its parts below float32, a name in ``PRECISIONS``; None for a model
            without steps of low precision; ``NETWORK`` for a quantised network, whose steps
            are layers.
        form: Name of what every second step makes, in ``planted.FORMS``, or for a network in
            ``networks.FORMS``; None for anything.
    """

    seed: int
    steps: tuple[int, ...]
    precision: str | None = None
    form: str | None = None

    def model(self) -> ir.Model:
        """Build the model: valid, and one that ONNX Runtime has kernels for."""
        return ir.from_proto(self.proto())

    def proto(self) -> onnx.ModelProto:
        """Build the model as onnx has it."""
        if self.precision == NETWORK:
            return network(self.seed, self.steps, self.form)
        rng = np.random.default_rng([self.seed, 2**20])
        kind = FULL if self.precision is None else PRECISIONS[self.precision]
        opset = int(rng.choice(kind.opsets or OPSETS))
        scope = GraphScope(self.seed, opset, precision=kind)
        inputs = int(rng.integers(1, 4))
        for number in range(inputs):
            draw = scope.begin(2**20 + 1 + number)
            scope.fresh(draw)
        for step in self.steps:
            wanted = None if self.form is None or step % 2 else planted.FORMS[self.form]
            _take(scope, step, wanted)
        outputs = _outputs(scope)
        infos = [onnx.helper.make_value_info(v.name, scope.type_of(v)) for v in scope.inputs]
        graph = onnx.helper.make_graph(
            scope.nodes,
            f"random_{self.seed}",
            infos,
            [onnx.helper.make_value_info(v.name, scope.type_of(v)) for v in outputs],
            initializer=scope.initializers,
        )
        _annotate(graph, scope)
        imports = [onnx.helper.make_opsetid("", scope.opset)]
        if rng.random() < 0.1:
            imports.append(onnx.helper.make_opsetid("unread", 1))
        if scope.functions:
            imports.append(onnx.helper.make_opsetid("local", 1))
        return onnx.helper.make_model(
            graph, opset_imports=imports, functions=scope.functions, ir_version=IR_VERSION
        )

    def shrunk(self, fails: Callable[[Recipe], bool], checks: int = 200) -> Recipe:
        """Return a recipe of as few steps as possible that still fails.

        Args:
            fails: Whether a recipe shows the fault.
            checks: Calls of ``fails`` at most.
        """
        best, size = self, max(1, len(self.steps) // 2)
        while size and checks:
            start = 0
            while start < len(best.steps) and checks:
                rest = best.steps[:start] + best.steps[start + size :]
                checks -= 1
                candidate = replace(best, steps=rest)
                if fails(candidate):
                    best = candidate
                else:
                    start += size
            size //= 2
        return best


def recipes(count: int, *, seed: int = 0, steps: int = 12) -> Iterator[Recipe]:
    """Yield recipes of up to a number of steps.

    Args:
        count: How many.
        seed: The same seed gives the same recipes.
        steps: Steps at most; every model has another number of them.
    """
    rng = np.random.default_rng(seed)
    for _ in range(count):
        number = int(rng.integers(2**31))
        yield Recipe(number, tuple(range(int(rng.integers(2, steps + 1)))))


def network_recipes(count: int, *, seed: int = 0, steps: int = 5) -> Iterator[Recipe]:
    """Yield recipes of quantised networks.

    Args:
        count: How many.
        seed: The same seed gives the same recipes.
        steps: Layers at most.
    """
    for recipe in recipes(count, seed=seed, steps=steps):
        yield replace(recipe, precision=NETWORK)


def recipes_on(kinds: Sequence[str], count: int, *, seed: int = 0) -> Iterator[Recipe]:
    """Yield recipes of models of some kinds, which take turns.

    Args:
        kinds: ``ANY`` for those of :func:`recipes`, ``NETWORK`` for those of
            :func:`network_recipes`, and names of forms that the models have; empty for any.
        count: How many.
        seed: The same seed gives the same recipes.

    Raises:
        KeyError: There is no form of a name.
    """
    both = zip(recipes(count, seed=seed), network_recipes(count, seed=seed), strict=True)
    for number, (plain, net) in enumerate(both):
        kind = kinds[number % len(kinds)] if kinds else ANY
        if kind == ANY:
            yield plain
        elif kind == NETWORK or kind in LAYERS:
            yield net if kind == NETWORK else replace(net, form=kind)
        else:
            planted.FORMS[kind]
            yield replace(net, precision=None, form=kind)


def mixed_recipes(count: int, *, seed: int = 0, steps: int = 12) -> Iterator[Recipe]:
    """Yield recipes as :func:`recipes` does, every third one of low precision.

    The others are the same as those of :func:`recipes`; the kinds of ``PRECISIONS`` take
    turns.

    Args:
        count: How many.
        seed: The same seed gives the same recipes.
        steps: Steps at most.
    """
    kinds = list(PRECISIONS)
    for number, recipe in enumerate(recipes(count, seed=seed, steps=steps)):
        turn, place = divmod(number, 3)
        low = place == 2
        yield replace(recipe, precision=kinds[turn % len(kinds)]) if low else recipe


def _annotate(graph: onnx.GraphProto, scope: GraphScope) -> None:
    """Note the types of inner values in some models, and describe the nodes of some."""
    rng = np.random.default_rng([scope.seed, 2**22])
    if rng.random() < ANNOTATED:
        named = {value.name for value in [*graph.input, *graph.output]}
        made = {name for node in graph.node for name in node.output} - named
        inner = [v for v in [*scope.values, *scope.sealed] if v.name in made]
        graph.value_info.extend(
            onnx.helper.make_value_info(v.name, scope.type_of(v)) for v in inner
        )
    if rng.random() < ANNOTATED:
        for index, node in enumerate(graph.node):
            node.doc_string = f"node {index}"
            onnx.helper.set_metadata_props(node, {"number": str(index)})


def _take(scope: GraphScope, number: int, wanted: structure_steps.Step | None = None) -> None:
    """Take one step: the first of a few drawn that fits, or the one that is wanted."""
    rng = scope.begin(number)
    among = planted.STEPS if rng.random() < PLANTED else _STEPS
    if wanted is not None:
        among = (wanted,)
    elif scope.precision != FULL and (rng.random() < LOWERED or not scope.nodes):
        among = planted.low_steps(scope)
    for turn in range(TRIES):
        step = among[int(rng.integers(len(among)))]
        mark = _mark(scope)
        try:
            # Not turn 0: numpy takes [a, b, 0] for [a, b].
            step(scope, np.random.default_rng([scope.seed, number, turn + 1]))
        except UnfitError:
            _undo(scope, mark)
        else:
            return


def _mark(scope: GraphScope) -> tuple[int, ...]:
    return (
        len(scope.nodes),
        len(scope.values),
        len(scope.inputs),
        len(scope.initializers),
        len(scope.functions),
        len(scope.sealed),
    )


def _undo(scope: GraphScope, mark: tuple[int, ...]) -> None:
    parts = (
        scope.nodes,
        scope.values,
        scope.inputs,
        scope.initializers,
        scope.functions,
        scope.sealed,
    )
    for part, length in zip(parts, mark, strict=True):
        del part[length:]  # type: ignore[attr-defined]  # a tuple of lists of several types


def _outputs(scope: GraphScope) -> list[KnownValue]:
    """Choose the outputs: values that nobody reads, but for some dead ends, and a few more."""
    rng = np.random.default_rng([scope.seed, 2**21])
    read = {name for node in scope.nodes for name in _reads(node)}
    made = {name for node in scope.nodes for name in node.output}
    values = [*scope.values, *scope.sealed]
    luck = {v.name: _luck(scope.seed, v.name) for v in values}
    found = [
        v
        for v in values
        if (v.name in made and v.data is None and v.shape is not None)
        and (luck[v.name] < 0.9 if v.name not in read else luck[v.name] < 0.12)
    ]
    if not found:
        found = [v for v in values if v.name in made and v.shape is not None][-1:]
    odd = rng.random()
    if odd < 0.05:
        # An output that no node computes.
        found += [v for v in scope.values if v.name not in made][:1]
    if not found:
        found = scope.inputs[:1] or scope.values[:1]
    return found


def _luck(seed: int, name: str) -> float:
    return float(np.random.default_rng([seed, *name.encode()]).random())


def _reads(node: onnx.NodeProto) -> Iterator[str]:
    yield from node.input
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs):
            for inner in graph.node:
                yield from _reads(inner)
