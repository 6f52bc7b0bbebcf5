"""Infer the ranges of values by interval arithmetic."""

from collections.abc import Mapping
from dataclasses import dataclass

import onnx_ir as ir
from pydantic import Field

from onnx_passes import passes
from onnx_passes.errors import OptionError
from onnx_passes.ops.call import Operands
from onnx_passes.ops.domains.intervals import UNBOUNDED, Interval, hull, of_array, of_type
from onnx_passes.ops.node_queries import range_of
from onnx_passes.passes.analysis._sizes import sized
from onnx_passes.passes.constants import constant_of, numbers_of
from onnx_passes.passes.options import did_you_mean

SHOWN = 20


@dataclass(frozen=True)
class Ranges:
    """Between which numbers the elements of each value lie.

    Intervals include values of subgraphs, and are infinite where nothing is known. An element
    that is NaN is in no interval.
    """

    intervals: dict[str, Interval]
    unbounded: int


@passes.register("analysis")
class ValueRanges(passes.Analysis):
    """Infer the ranges of values by interval arithmetic.

    Finds: between which numbers the elements of each value lie that are not NaN, from the
    constants, the types, and what is said of the inputs. Intervals are moved outwards by what
    engines may round, and an integer that may overflow can be anything. An operator without
    a rule, the body of a Loop or Scan, and what needs a size that is not known give an
    interval without ends. How values depend on each other is not seen: x - x is not 0.

    Attributes:
        inputs: The least and the greatest number of inputs, by name: ``{image: [0, 1]}``.
        dims: Sizes of dynamic dimensions, by name, on which sums depend.
    """

    inputs: dict[str, tuple[float, float]] = Field(default_factory=dict)
    dims: dict[str, int] = Field(default_factory=dict)

    def analyse(self, model: ir.Model) -> Ranges:
        """Return the intervals, and note those of the outputs for the report."""
        found = ranges_of(model, self.inputs, self.dims, name=self.name)
        count = len(found.intervals)
        self.context.notes.append(
            f"{count - found.unbounded:,} of {count:,} values are bounded"
        )
        for value in model.graph.outputs[:SHOWN]:
            low, high = found.intervals.get(value.name or "", UNBOUNDED)
            self.context.notes.append(f"{value.name} lies in [{low:.6g}, {high:.6g}]")
        return found


def ranges_of(
    model: ir.Model,
    inputs: Mapping[str, Interval],
    dims: Mapping[str, int],
    *,
    name: str = "value-ranges",
) -> Ranges:
    """Bound the values of a model."""
    graph = sized(model, dims, name).graph
    values = {value.name or "": value for value in graph.inputs}
    known: dict[ir.Value, Interval] = {}
    for key, (low, high) in inputs.items():
        if key not in values:
            hint = did_you_mean(key, values, f"its inputs are: {', '.join(values)}")
            raise OptionError(f"{name}: the model has no input {key!r}", help=hint)
        if not low <= high:
            raise OptionError(
                f"{name}: [{low}, {high}] is no range of input {key!r}",
                help="give the least number, then the greatest",
            )
        known[values[key]] = (low, high)
    _visit(graph, known)
    named = {value.name: interval for value, interval in known.items() if value.name}
    return Ranges(named, sum(interval == UNBOUNDED for interval in named.values()))


def _visit(graph: ir.Graph, found: dict[ir.Value, Interval]) -> None:
    """Fill in what nodes compute, in topological order."""

    def known(value: ir.Value | None) -> Interval:
        if value is None:
            return UNBOUNDED
        if value in found:
            return found[value]
        array = numbers_of(value)
        return of_type(value.dtype) if array is None else of_array(array)

    opset = graph.opset_imports.get("", 22)
    for value in graph.inputs:
        found.setdefault(value, of_type(value.dtype))
    for node in graph:
        bodies = [
            body
            for attribute in node.attributes.values()
            if attribute.type == ir.AttributeType.GRAPH and not attribute.is_ref()
            for body in (attribute.as_graph(),)
        ]
        for body in bodies:
            _visit(body, found)
        for index, value in enumerate(node.outputs):
            if bodies and node.op_type == "If" and not node.domain:
                found[value] = hull(*(known(body.outputs[index]) for body in bodies))
            elif constant_of(value) is not None:
                found[value] = known(value)
            elif index == 0 or node.op_type == "Split":
                found[value] = range_of(Operands(node, known, numbers_of, opset))
            else:
                found[value] = of_type(value.dtype)
