"""The block normal form: a proof for every size of the axes.

Both graphs are evaluated on inputs cut into blocks of symbolic sizes. Where every
block of every output has the same normal form, the graphs are equal for every size on which
both are well-formed. Numbers of the graphs at hand serve only to read where ``Split`` and
``Slice`` cut.
"""

from __future__ import annotations

import contextlib

import onnx_ir as ir

from onnx_passes.ops.domains.block_terms import Ambiguous, Contradiction, Refined, Sizes
from onnx_passes.ops.domains.blocks import Blocks, Node, known_constant, symbol
from onnx_passes.ops.evaluation import concrete_shape
from onnx_passes.ops.operator_class import MAIN, find
from onnx_passes.ops.semantics import MALFORMED, Unsupported
from onnx_passes.verify.rules.pairs import ModelPair
from onnx_passes.verify.rules.proof import CUTS, Coverage

_MAX_ROUNDS = 40
_MAX_DEPTH = 8

SUMMATION = "each sum is added up in the same order on both sides"


def block_argument(pair: ModelPair, *, ring: bool) -> Coverage:
    """Show that a pair is equal for all sizes, and return what that covers.

    Args:
        pair: The graphs.
        ring: Whether the laws of a commutative ring may be used (reals, integers modulo 2^n);
            else only that equal operations on equal operands are equal, bit for bit.

    Raises:
        Unsupported: It could not be shown; the message says why.
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
