"""Add layout converters at inputs and outputs, which say the layout that they have."""

from collections.abc import Sequence

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.compat.names import is_for_seed
from onnx_passes.errors import PassError
from onnx_passes.ops.bodies.operator_bodies import CUSTOM
from onnx_passes.passes.cleanup.remove_initializers_from_inputs import (
    RemoveInitializersFromInputs,
)
from onnx_passes.passes.common.graph_edits import inverse
from onnx_passes.passes.replace import Namer
from onnx_passes.plain import PlainMapping

Layout = PlainMapping


@passes.verify.equality
@passes.register()
class ConvertLayouts(passes.Transformation):
    """Add layout converters at inputs and outputs, which say the layout that they have.

    Before: an input ``x``, an output ``y``
    After:  ``Transpose<inverse>(LayoutConverter<assumes, perm>(x))`` for ``x``, and the same
            for ``y``: the axes of ``x`` are those that ``assumes`` names, ``perm`` is the
            order wanted inside

    ``absorb-layouts`` then lets converters take in the Transposes beside them.

    Sound because the two permutations undo each other; no element changes its place.

    For pipelines with keys of the seed system, initializers that are inputs as well become
    constants, as there.

    Leaves alone: an input or output whose entry is null or that has none; one that has a
    converter; an output that no node computes.

    Attributes:
        inp: For each input, in order, a mapping with ``assumes``, names of its axes, and
            ``perm``, or null. The section ``layouts`` of a pipeline file gives it.
        out: The same for each output.
    """

    inp: tuple[Layout | None, ...] = ()
    out: tuple[Layout | None, ...] = ()

    interface_changes = frozenset({"inputs"})

    @classmethod
    def example_for(cls, model: ir.Model) -> PlainMapping:
        """Return layouts that turn the axes of inputs and outputs round."""
        required = [value for value in model.graph.inputs if not value.is_initializer()]
        return {
            "inp": tuple(map(_reverse_axes, required)),
            "out": tuple(map(_reverse_axes, model.graph.outputs)),
        }

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Insert converters."""
        names, graph = Namer(model), model.graph
        required = [value for value in graph.inputs if not value.is_initializer()]
        changed = False
        if is_for_seed(self.config):
            changed = RemoveInitializersFromInputs(None, self.state_dict).call(model).modified
        section = self.config.get("layouts") or {}  # a bare pass manager gives no options
        inp, out = self.inp or section.get("inp") or (), self.out or section.get("out") or ()
        for value, layout in zip(required, inp, strict=False):
            if layout is not None and not any(map(_converts, value.consumers())):
                nodes = self._nodes(value, layout, names)
                users = [(node, index) for node, index in value.uses() if node not in nodes]
                for node, index in users:
                    node.replace_input_with(index, nodes[-1].outputs[0])
                _insert(graph, nodes)
                changed = True
        for index, (value, layout) in enumerate(zip(graph.outputs, out, strict=False)):
            made = value.producer()
            if layout is None or made is None or _is_converted(made):
                continue
            nodes = self._nodes(value, layout, names)
            _insert(graph, nodes)
            self._hand_over(value, nodes[-1].outputs[0], names)
            graph.outputs[index] = nodes[-1].outputs[0]
            changed = True
        if changed:
            model.opset_imports.setdefault(CUSTOM, 1)
            graph.sort()
        return ir.passes.PassResult(model, modified=changed)

    def _nodes(self, value: ir.Value, layout: Layout, names: Namer) -> list[ir.Node]:
        perm, assumes = layout.get("perm"), layout.get("assumes")
        if perm is None or assumes is None or sorted(perm) != list(range(len(assumes))):
            raise PassError(
                f"the layout of {value.name!r} is {dict(layout)!r}",
                help="write {assumes: [N, C, H, W], perm: [0, 2, 3, 1]}",
            )
        if value.shape is not None and len(value.shape) != len(perm):
            raise PassError(f"{value.name!r} has {len(value.shape)} axes, and not {len(perm)}")
        attributes = [
            ir.AttrStrings("assumes", [str(axis) for axis in assumes]),
            ir.AttrInt64s("perm", list(perm)),
        ]
        return [
            self._node("LayoutConverter", value, attributes, names, CUSTOM),
            self._node("Transpose", None, [ir.AttrInt64s("perm", inverse(perm))], names),
        ]

    def _node(
        self,
        kind: str,
        value: ir.Value | None,
        attributes: Sequence[ir.Attr],
        names: Namer,
        domain: str = "",
    ) -> ir.Node:
        node = ir.Node(domain, kind, [value], attributes, name=names.node(kind))
        node.outputs[0].name = names.value(f"{kind}_out")
        return node

    def _hand_over(self, old: ir.Value, new: ir.Value, names: Namer) -> None:
        """Let a new output have the name, type and shape of the old one."""
        new.type, new.shape, new.name = old.type, old.shape, old.name
        old.name = names.value(f"{old.name}_inner")


def _insert(graph: ir.Graph, nodes: list[ir.Node]) -> None:
    first, second = nodes
    second.replace_input_with(0, first.outputs[0])
    graph.extend(nodes)


def _reverse_axes(value: ir.Value) -> Layout | None:
    if not value.shape or not isinstance(value.type, ir.TensorType):
        return None
    axes = range(len(value.shape))
    return {"assumes": [f"a{axis}" for axis in axes], "perm": list(reversed(axes))}


def _converts(node: ir.Node) -> bool:
    return (node.domain, node.op_type) == (CUSTOM, "LayoutConverter")


def _is_converted(node: ir.Node) -> bool:
    source = node.inputs[0].producer() if node.inputs and node.inputs[0] is not None else None
    return _converts(node) or (
        node.op_type == "Transpose" and source is not None and _converts(source)
    )
