"""A pair of graphs, and two arguments that they are equal for every size of the axes.

The scalar argument compares single elements of pointwise graphs. The block normal form
evaluates both graphs on inputs cut into blocks of symbolic sizes. The graphs are equal if all
blocks of all outputs have equal normal forms.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import onnx_ir as ir
from onnx_ir.passes.common import (
    InlinePass,
    LiftConstantsToInitializersPass,
    ShapeInferencePass,
)

from onnx_passes.certifying.proof import CUTS, Coverage
from onnx_passes.errors import ModelError
from onnx_passes.ops.call import Tensor, constant
from onnx_passes.ops.domains.block_terms import Ambiguous, Contradiction, Refined, Sizes
from onnx_passes.ops.domains.blocks import Blocks, Node, known_constant, symbol
from onnx_passes.ops.evaluation import concrete_shape
from onnx_passes.ops.operator_class import MAIN, find, operator_of
from onnx_passes.ops.semantics import (
    MALFORMED,
    Semantics,
    Unsupported,
    is_float,
    is_integer,
    scalars,
)


@dataclass(frozen=True)
class ModelPair:
    """Two models that are to compute the same, with the same names of inputs and outputs."""

    before: ir.Model
    after: ir.Model

    @staticmethod
    def of(before: ir.Model, after: ir.Model) -> ModelPair:
        """Copy two models and infer types; ModelError if their interfaces differ."""
        before, after = _typed(before, trusted=True), _typed(after, trusted=False)
        wanted, given = ([str(v.name) for v in m.graph.inputs] for m in (before, after))
        if not set(given) <= set(wanted):
            extra = sorted(set(given) - set(wanted))
            raise ModelError(
                f"the rewritten model has inputs that the original lacks: {', '.join(extra)}",
                help="compare models of the same interface",
            )
        if len(before.graph.outputs) != len(after.graph.outputs):
            raise ModelError(
                f"the rewritten model has {len(after.graph.outputs)} outputs, "
                f"the original {len(before.graph.outputs)}",
                help="compare models of the same interface",
            )
        _name_outputs(before, after)
        return ModelPair(before, after)

    @cached_property
    def inputs(self) -> list[ir.Value]:
        """The graph inputs; one with an initializer too, as a caller may feed it."""
        return list(self.before.graph.inputs)

    @cached_property
    def interface_types(self) -> set[ir.DataType]:
        """The types of inputs and outputs."""
        values = (*self.inputs, *self.before.graph.outputs)
        return {v.dtype for v in values if v.dtype is not None}

    @cached_property
    def float_types(self) -> set[ir.DataType]:
        """Every float type of any value on either side."""
        return {t for t in _types(self.before) | _types(self.after) if is_float(t)}

    @property
    def has_floats(self) -> bool:
        """Whether floats go in, come out or are computed on the way."""
        return bool(self.float_types)

    @property
    def has_integers(self) -> bool:
        """Whether integers go in or come out."""
        return any(is_integer(t) for t in self.interface_types)

    @property
    def shapes(self) -> str:
        """The shapes of the inputs as text."""
        parts = (f"{v.name}{list(concrete_shape(v))}" for v in self.inputs)
        return ", ".join(parts) or "no inputs"

    @cached_property
    def shared_constants(self) -> dict[str, ir.DataType]:
        """Types by name of the constants of more than one element that both sides have."""
        shared = {}
        others = self.after.graph.initializers
        for name, value in self.before.graph.initializers.items():
            mine, other = value.const_value, None
            if name in others and not value.is_graph_input():
                other = others[name].const_value
            if mine is None or other is None or mine.size <= 1 or mine.dtype != other.dtype:
                continue
            if not mine.dtype.is_integer() and np.array_equal(
                mine.numpy(), other.numpy(), equal_nan=mine.dtype.is_floating_point()
            ):
                shared[name] = mine.dtype
        return shared

    def float_constants(self) -> list[float]:
        """Return every float that a graph has as a constant or an attribute."""
        numbers: list[float] = []
        for model in (self.before, self.after):
            for _, tensor in _constants(model):
                if is_float(tensor.dtype):
                    numbers += tensor.numpy().astype(float).reshape(-1).tolist()
            attrs = (a for node in model.graph for a in node.attributes.values())
            numbers += [float(a.value) for a in attrs if a.type == ir.AttributeType.FLOAT]
        return numbers

    def constants(self) -> list[str]:
        """Describe the constants of the interface's types, a phrase each."""
        described = {}
        for model in (self.before, self.after):
            for name, tensor in _constants(model):
                if name in self.shared_constants:
                    continue
                if tensor.size == 1 and tensor.dtype in self.interface_types:
                    number = tensor.numpy().reshape(-1)[0]
                    described[str(number)] = f"constant {name} = {number}"
                elif tensor.dtype in self.interface_types:
                    described[name] = f"constant {name} of shape {list(tensor.shape)}"
        return list(described.values())


def _typed(model: ir.Model, *, trusted: bool) -> ir.Model:
    copy = model.clone()
    if copy.functions:
        # What a function computes is its body, and a rewrite may have changed that.
        InlinePass()(copy)
    LiftConstantsToInitializersPass(size_limit=0)(copy)
    if not trusted:
        # A rewrite inherits the declared shapes of what it replaces, right or wrong.
        for output in copy.graph.outputs:
            if output.producer() is not None:
                output.shape = None
    ShapeInferencePass()(copy)
    return copy


def _name_outputs(before: ir.Model, after: ir.Model) -> None:
    # Outputs correspond by position; only their names may have moved to other values.
    wanted = [o.name for o in before.graph.outputs]
    ends = set(after.graph.outputs)
    for value in (o for node in after.graph for o in node.outputs):
        if value not in ends and value.name in wanted:
            value.name = f"{value.name}_inner"
    for old, new in zip(before.graph.outputs, after.graph.outputs, strict=True):
        if new.name == old.name:
            continue
        if new.is_graph_input() or new.is_initializer() or new.name in wanted:
            identity = ir.node("Identity", [new])
            after.graph.append(identity)
            fresh = identity.outputs[0]
            fresh.type, fresh.shape = new.type, new.shape
            index = list(after.graph.outputs).index(new)
            after.graph.outputs[index] = fresh
            new = fresh
        new.name = old.name


def _types(model: ir.Model) -> set[ir.DataType]:
    values = [*model.graph.inputs, *model.graph.initializers.values()]
    values += [o for node in model.graph for o in node.outputs]
    return {v.dtype for v in values if v.dtype is not None}


def _constants(model: ir.Model) -> Iterator[tuple[str, ir.TensorProtocol]]:
    for name, value in model.graph.initializers.items():
        if value.const_value is not None:
            yield name, value.const_value
    for node in model.graph:
        if node.op_type == "Constant":
            tensor = ir.convenience.get_const_tensor(node.outputs[0])
            if tensor is not None:
                yield str(node.outputs[0].name), tensor


@dataclass(frozen=True, slots=True)
class ShapeDependencies:
    """What the shape of a value depends on.

    `operands` are inputs and shared constants that broadcast into it, `rank` that of constants
    of one element, and `bounds` inputs that bound a Clip, which must be scalars.
    """

    operands: frozenset[str] = frozenset()
    rank: int = 0
    bounds: frozenset[str] = frozenset()


@dataclass(frozen=True)
class ScalarArgument:
    """A pair of pointwise graphs, reduced to scalars.

    Constants of several elements are unknowns if both sides have them (`shared`), or the one
    number that they hold (`filled`).
    """

    pair: ModelPair
    coverage: Coverage
    shared: Mapping[str, ir.DataType] = field(default_factory=dict)
    filled: Mapping[str, ir.TensorProtocol] = field(default_factory=dict)

    def unknowns(self, semantics: Semantics) -> dict[str, Tensor]:
        """Return one unknown scalar per input and shared constant, and those known."""
        typed = {str(v.name): v.dtype for v in self.pair.inputs if v.dtype is not None}
        unknown = {
            name: Tensor(scalars([semantics.variable(name, dtype)], ()), dtype)
            for name, dtype in {**typed, **self.shared}.items()
        }
        known = {
            name: constant(tensor.numpy().reshape(-1)[:1].reshape(()), tensor.dtype, semantics)
            for name, tensor in self.filled.items()
        }
        return {**unknown, **known}


def scalar_argument(pair: ModelPair, *, numbers: bool = False) -> ScalarArgument | None:
    """Return the pair reduced to scalars, or None where it is not pointwise throughout.

    With `numbers`, constants of several equal elements are that number, and not unknowns; None
    if there are no such constants.
    """
    filled = _filled(pair) if numbers else {}
    if numbers and not filled:
        return None
    shared = {k: v for k, v in pair.shared_constants.items() if k not in filled}
    whole = {**shared, **{name: t.dtype for name, t in filled.items()}}
    before, after = (_reach(m, whole) for m in (pair.before, pair.after))
    if before is None or after is None:
        return None
    conditions = dict.fromkeys(pair.constants())
    for name, tensor in filled.items():
        number = tensor.numpy().reshape(-1)[0]
        conditions[f"constant {name} = {number} in each element"] = None
    least_rank = 0
    for old, new in zip(before, after, strict=True):
        for name in sorted(new.bounds - old.bounds):
            conditions[f"{name} is a scalar"] = None
        scalar_only = old.bounds | new.bounds
        left, right = old.operands - scalar_only, new.operands - scalar_only
        for names, side in ((left - right, "original"), (right - left, "rewritten")):
            for name in sorted(names):
                text = (
                    f"{name}, which only the {side} graph reads, does not enlarge the output"
                )
                conditions[text] = None
        if old.rank != new.rank:
            least_rank = max(least_rank, old.rank, new.rank)
    if least_rank:
        conditions[f"the inputs have rank {least_rank} or more"] = None
    return ScalarArgument(
        pair, Coverage(True, "all ranks and sizes", tuple(conditions)), dict(shared), filled
    )


def _filled(pair: ModelPair) -> dict[str, ir.TensorProtocol]:
    """Return the constants of several elements that are one number, where names are clear."""
    found: dict[str, ir.TensorProtocol] = {}
    for model in (pair.before, pair.after):
        for name, value in model.graph.initializers.items():
            tensor = value.const_value
            if tensor is None or tensor.size <= 1 or value.is_graph_input():
                continue
            array = tensor.numpy().reshape(-1)
            one = bool((array == array[0]).all())
            if not one or (name in found and found[name].numpy().flat[0] != array[0]):
                return {}
            found[name] = tensor
    return found


def _reach(
    model: ir.Model, shared: Mapping[str, ir.DataType]
) -> list[ShapeDependencies] | None:
    graph = model.graph
    known: dict[ir.Value, ShapeDependencies] = {
        v: ShapeDependencies(frozenset([str(v.name)])) for v in graph.inputs
    }
    for name, value in graph.initializers.items():
        if value.is_graph_input():
            continue
        if name in shared:
            known[value] = ShapeDependencies(frozenset([name]))
        elif value.const_value is not None and value.const_value.size == 1:
            known[value] = ShapeDependencies(rank=len(value.const_value.shape))
    for node in graph:
        reach = _node_reach(node, known)
        if reach is None:
            return None
        known[node.outputs[0]] = reach
    outputs = [known.get(o) for o in graph.outputs]
    return None if None in outputs else [r for r in outputs if r is not None]


def _node_reach(
    node: ir.Node, known: Mapping[ir.Value, ShapeDependencies]
) -> ShapeDependencies | None:
    if node.domain not in ("", "ai.onnx"):
        return None
    if node.op_type == "Constant":
        value = node.attributes.get("value")
        if value is None:
            plain = {"value_float", "value_int"} & set(node.attributes)
            return ShapeDependencies() if plain else None
        tensor = value.as_tensor()
        return ShapeDependencies(rank=len(tensor.shape)) if tensor.size == 1 else None
    operator = operator_of(node)
    if operator is None or not operator.elementwise or len(node.outputs) != 1:
        return None
    given = [v for v in node.inputs if v is not None and v.name != ""]
    if any(v not in known for v in given):
        return None
    reached = [known[v] for v in given]
    bounds = frozenset().union(*(r.bounds for r in reached))
    if node.op_type == "Clip":
        bounds = bounds.union(*(r.operands for r in reached[1:]))
    return ShapeDependencies(
        frozenset().union(*(r.operands for r in reached)),
        max((r.rank for r in reached), default=0),
        bounds,
    )


_MAX_ROUNDS = 40
_MAX_DEPTH = 8

SUMMATION = "each sum is added up in the same order on both sides"


def block_argument(pair: ModelPair, *, ring: bool) -> Coverage:
    """Show that a pair is equal for all sizes, and return what that covers.

    With `ring`, the laws of a commutative ring hold (reals, integers modulo 2^n). Otherwise
    only equal operations on equal operands are equal. Unsupported says why it was not shown.
    """
    prover = _BlockProver(pair, ring)
    verified = prover.explore(Sizes(), 0)
    if not verified:
        raise Unsupported("no sizes on which both graphs are well-formed")
    conditions = list(dict.fromkeys(pair.constants()))
    if prover.imposed:
        conditions.append("sizes on which the rewritten graph is well-formed")
    if any(1 in concrete_shape(v) for v in pair.inputs):
        conditions.append("axes of size 1 stay so")
    if prover.cuts:
        conditions.append(CUTS)
    if not ring and prover.sums:
        conditions.append(SUMMATION)
    return Coverage(True, f"all sizes of inputs with ranks {_ranks(pair)}", tuple(conditions))


def _ranks(pair: ModelPair) -> str:
    return ", ".join(f"{v.name}:{len(concrete_shape(v))}" for v in pair.inputs)


class _BlockProver:
    """Evaluates both graphs, again and again, until no axis needs another cut."""

    def __init__(self, pair: ModelPair, ring: bool) -> None:
        self._pair, self._ring = pair, ring
        self.imposed = self.sums = self.cuts = False

    def explore(self, sizes: Sizes, depth: int) -> int:
        """Return in how many orders of sizes both graphs exist, having shown them equal."""
        if depth > _MAX_DEPTH:
            raise Unsupported("too many ways in which axes may be cut")
        for _ in range(_MAX_ROUNDS):
            try:
                self._compare(sizes)
            except Refined:
                continue
            except Contradiction:
                self.imposed |= sizes.after
                return 0
            except Ambiguous as choice:
                self.imposed |= sizes.after
                options = sizes.orders(choice.left, choice.right)
                return sum(self.explore(option, depth + 1) for option in options)
            self.imposed |= sizes.imposed
            return 1
        raise Unsupported("axes that need ever finer cuts")

    def _compare(self, sizes: Sizes) -> None:
        sizes.after = False
        try:
            before = self._evaluate(self._pair.before, "before", sizes)
        except Ambiguous as choice:
            # What the other graph asks may settle it, and spare a case distinction.
            sizes.after = True
            with contextlib.suppress(Ambiguous, Unsupported):
                self._evaluate(self._pair.after, "after", sizes)
            raise choice from None
        sizes.after = True
        after = self._evaluate(self._pair.after, "after", sizes)
        for old, new, value in zip(
            before, after, self._pair.before.graph.outputs, strict=True
        ):
            if old.dtype != new.dtype:
                raise Unsupported(f"output {value.name!r} changes its type")
            if old.words != new.words:
                raise Unsupported(f"output {value.name!r} is cut differently on the two sides")
            for place, form in old.forms.items():
                if form != new.forms[place]:
                    raise Unsupported(f"block {list(place)} of {value.name!r} differs")

    def _evaluate(self, model: ir.Model, side: str, sizes: Sizes) -> list[Blocks]:
        graph = model.graph
        known: dict[ir.Value, Blocks] = {}
        for value in graph.inputs:
            if value.dtype is None:
                raise Unsupported(f"input {value.name!r} without a type")
            shape = concrete_shape(value)
            known[value] = symbol(str(value.name), shape, value.dtype, sizes)
        for index, node in enumerate(graph):
            inputs = [self._operand(v, known, node, sizes) for v in node.inputs]
            opset = node.version or graph.opset_imports.get(node.domain, 1)
            call = Node(node, inputs, sizes, self._ring, (side, index), opset)
            operator = find(node.domain, node.op_type) if node.domain in MAIN else None
            if operator is None:
                raise Unsupported(f"the operator {node.op_type}")
            self.cuts |= operator.cuts
            self.sums |= operator.sums
            try:
                result = operator.blocks(call)
            except MALFORMED as error:
                raise Unsupported(
                    f"{node.op_type} on blocks that do not fit: {error}"
                ) from error
            outputs = result if isinstance(result, tuple) else (result,)
            known.update(zip(node.outputs, outputs, strict=False))
        missing = [o.name for o in graph.outputs if o not in known]
        if missing:
            raise Unsupported(f"an output that no node computes: {missing[0]!r}")
        return [known[o] for o in graph.outputs]

    def _operand(
        self,
        value: ir.Value | None,
        known: dict[ir.Value, Blocks],
        node: ir.Node,
        sizes: Sizes,
    ) -> Blocks | None:
        if value is None or value.name == "":
            return None
        if value in known:
            return known[value]
        if value.const_value is None:
            raise Unsupported(f"value {value.name!r} that nothing defines")
        tensor = value.const_value
        if value.name in self._pair.shared_constants:
            # The same constant on both sides: the proof holds whatever its content.
            return symbol(f"constant {value.name}", tensor.shape.numpy(), tensor.dtype, sizes)
        call = Node(node, (), sizes, self._ring, (), 1)
        return known_constant(call, tensor.numpy(), tensor.dtype)
