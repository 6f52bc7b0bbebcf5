"""Replace fixed dimensions by dynamic ones."""

from collections.abc import Mapping
from types import MappingProxyType

import onnx_ir as ir
from pydantic import Field

from onnx_passes import passes
from onnx_passes.errors import PassError
from onnx_passes.model.walk import graphs_within
from onnx_passes.passes.annotation.shape_inference import try_infer_shapes
from onnx_passes.passes.common.graph_edits import require_free_initializers
from onnx_passes.passes.convert._ports import find
from onnx_passes.passes.convert._probe import Baked, Place, Probe, constant, forget_shapes
from onnx_passes.passes.replace import Namer
from onnx_passes.plain import PlainMapping

MOST_ROUNDS = 100
SHOWN = 5
OFFSETS = (1, 4, 9)
"""What is added to the old sizes for the probes; further names are kept apart from these."""


@passes.verify.equality
@passes.register()
class UnfreezeDims(passes.Transformation):
    """Replace fixed dimensions by dynamic ones.

    Before: ``(float[1, 3] x) => (float[1, 3] y)`` with ``dims: {x: {0: batch}}``
    After:  ``(float[batch, 3] x) => (float[batch, 3] y)``

    Shapes are inferred for three other sizes; they say which dimensions of the outputs follow.
    Those that follow in another way, as twice the size, become dynamic without a name.

    Sound because for the old sizes nothing changes, which is what runs compare. For other
    sizes every node takes the shapes that shape inference finds, and no Reshape holds on to an
    old size. Whether the results mean what they should for other sizes is not in the model.

    Leaves alone: all other dimensions. It refuses, and says which nodes it is, where a Reshape
    has an old size in its constant target, or where shapes contradict each other; and models
    that call functions.

    Attributes:
        dims: By input, the names of its axes: ``{image: {0: batch}}``.
        repair: Let a Reshape whose target has the old size at the place where its input has
            the dimension copy it (0), in place of refusing.
    """

    interface_changes = frozenset({"dims"})
    example = MappingProxyType({"dims": {}})

    dims: dict[str, dict[int, str]] = Field(default_factory=dict)
    repair: bool = False

    @classmethod
    def example_for(cls, model: ir.Model) -> PlainMapping:
        """Unfreeze the first axis of the first input that has one of a fixed size."""
        for value in model.graph.inputs:
            if value.shape and isinstance(value.shape[0], int) and not value.is_initializer():
                return {"dims": {value.name: {0: "any"}}}
        return cls.example

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Unfreeze the dimensions."""
        places = self._places(model)
        if not places:
            return ir.passes.PassResult(model, modified=False)
        called = {node.op_identifier() for g in graphs_within(model.graph) for node in g}
        if called & model.functions.keys():
            raise PassError(
                f"{self.name}: the model calls functions, into which shapes do not reach",
                help="run inline-functions before",
            )
        probes, repaired = self._probe(model, places)
        namer = Namer(model)
        nodes = [node for graph in graphs_within(model.graph) for node in graph]
        if repaired:
            require_free_initializers(model)
        for number, target in repaired.items():
            new = constant(model, target, namer.value("reshape_target"))
            old = nodes[number].inputs[1]
            nodes[number].replace_input_with(1, new)
            _drop_unread(old)
        outputs = [
            self._follow(i, value, probes) for i, value in enumerate(model.graph.outputs)
        ]
        for value in model.graph.inputs:
            if value.shape is not None:
                value.shape = ir.Shape(
                    [places.get((value.name or "", i), d) for i, d in enumerate(value.shape)]
                )
        forget_shapes(model)
        for value, shape in zip(model.graph.outputs, outputs, strict=True):
            if not value.is_graph_input() and not value.is_initializer():
                value.shape = shape
        try_infer_shapes(model)
        return ir.passes.PassResult(model, modified=True)

    def _places(self, model: ir.Model) -> dict[Place, str]:
        sizes: dict[str, int] = {}
        places: dict[Place, str] = {}
        for value in find(model.graph.inputs, self.dims, self.name, "input"):
            rank = 0 if value.shape is None else len(value.shape)
            for axis, symbol in self.dims[value.name or ""].items():
                what = f"{self.name}: axis {axis} of input {value.name!r}"
                if value.shape is None or not -rank <= axis < rank:
                    raise PassError(f"{what} is not there", help=f"its rank is {rank}")
                size = value.shape[axis]
                if not isinstance(size, int):
                    if size.value == symbol:
                        continue  # it was unfrozen before
                    raise PassError(f"{what} is dynamic already", help="leave it out")
                if sizes.setdefault(symbol, size) != size:
                    raise PassError(
                        f"{what} is {size}, and {symbol!r} is {sizes[symbol]} elsewhere",
                        help="dimensions of one name have one size: give them two names",
                    )
                places[(value.name or "", axis % rank)] = symbol
        return places

    def _probe(
        self, model: ir.Model, places: Mapping[Place, str]
    ) -> tuple[list[Probe], dict[int, list[int]]]:
        """Return probes without a contradiction, and the targets repaired, by node."""
        symbols = list(dict.fromkeys(places.values()))
        old = Probe(model, places, dict.fromkeys(symbols, 2)).old
        probes: list[Probe] = []
        repaired: dict[int, list[int]] = {}
        for offset in OFFSETS:
            sizes = {s: old[s] + offset + 16 * i for i, s in enumerate(symbols)}
            probe = Probe(model, places, sizes)
            repaired |= self._settle(probe)
            told = probe.contradiction()
            if told is not None:
                given = ", ".join(f"{name} = {size}" for name, size in sizes.items())
                raise PassError(
                    f"{self.name}: the model cannot take {given}: {told}",
                    help="a constant of the old size may be in its way: correct the export",
                )
            probes.append(probe)
        return probes, repaired

    def _settle(self, probe: Probe) -> dict[int, list[int]]:
        """Repair what can and may be repaired, until nothing holds on to an old size."""
        repaired: dict[int, list[int]] = {}
        for _ in range(MOST_ROUNDS):
            baked = list(probe.baked())
            if not baked:
                break
            if not self.repair or any(each.better is None for each in baked):
                raise self._refusal(baked)
            for each in baked:
                assert each.better is not None, "it was just seen"
                probe.repair(each)
                repaired[each.number] = each.better
            probe.infer()
        return repaired

    def _refusal(self, baked: list[Baked]) -> PassError:
        names = [
            f"{each.node.name or each.node.outputs[0].name!r} to {each.target}"
            for each in baked[:SHOWN]
        ]
        more = f" and {len(baked) - SHOWN} more" if len(baked) > SHOWN else ""
        can = all(each.better is not None for each in baked)
        return PassError(
            f"{self.name}: Reshape holds on to the old size: {', '.join(names)}{more}",
            help="repair: true lets them copy the dimension from their input"
            if can
            else "the target has to be computed, or to have a -1: correct the export",
        )

    def _follow(self, index: int, value: ir.Value, probes: list[Probe]) -> ir.Shape | None:
        """Return the shape of an output, from what it is for each of the sizes."""
        shapes = [probe.model.graph.outputs[index].shape for probe in probes]
        ranks = {len(shape) for shape in shapes if shape is not None}
        if len(ranks) != 1 or any(shape is None for shape in shapes):
            # What a Loop carries may have any size; an output without a rank is not valid.
            return None if value.shape is None else ir.Shape([None] * len(value.shape))
        old = value.shape if value.shape is not None and {len(value.shape)} == ranks else None
        dims: list[int | ir.SymbolicDim | str | None] = []
        for axis in range(*ranks):
            seen = [None if shape is None else shape[axis] for shape in shapes]
            was = None if old is None else old[axis]
            dims.append(_dimension(seen, was, probes))
        return ir.Shape(dims)


def _drop_unread(value: ir.Value | None) -> None:
    """Remove an initializer that nothing reads any more."""
    if value is None or not value.is_initializer() or value.graph is None:
        return
    if not value.uses() and not value.is_graph_output() and not value.is_graph_input():
        del value.graph.initializers[value.name or ""]


def _dimension(
    seen: list[int | ir.SymbolicDim | None],
    was: int | ir.SymbolicDim | None,
    probes: list[Probe],
) -> int | ir.SymbolicDim | str | None:
    if not all(isinstance(size, int) for size in seen):
        return was if was is not None and not isinstance(was, int) else None
    if len(set(seen)) == 1:
        return seen[0]
    for name in probes[0].new:
        if seen == [probe.new[name] for probe in probes]:
            return name
    return None
