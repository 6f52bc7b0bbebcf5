"""What the passes share that compute one operator by simpler ones."""

from __future__ import annotations

import abc
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import onnx_ir as ir
from onnxscript.rewriter.pattern import MatchResult

from onnx_passes.passes._support.shapes import Dim, dims_of, sizes_of
from onnx_passes.passes.base import MatchContext, Op, RewriteRulePass, Transformation, Value
from onnx_passes.passes.lowering._primitives import FLOATS, Primitives


@dataclass(frozen=True)
class Site:
    """A node that may be lowered.

    Attributes:
        node: The node.
        opset: The opset it is of.
    """

    node: ir.Node
    opset: int

    def input(self, index: int) -> Value | None:
        """Return an input, None if it is left out."""
        return self.node.inputs[index] if index < len(self.node.inputs) else None

    def given(self, index: int) -> Value:
        """Return an input that the operator demands."""
        value = self.input(index)
        assert value is not None, "the schema demands it"
        return value

    @property
    def dtype(self) -> ir.DataType | None:
        """Element type of the first input."""
        return self.given(0).dtype

    def dims(self, index: int = 0) -> list[Dim] | None:
        """Return the dimensions of an input, as far as they are known."""
        return dims_of(self.input(index))

    def sizes(self, index: int = 0) -> list[int] | None:
        """Return the dimensions of an input, if all are numbers."""
        return sizes_of(self.input(index))

    def rank(self, index: int = 0) -> int | None:
        """Return the rank of an input, if it is known."""
        dims = self.dims(index)
        return None if dims is None else len(dims)

    def integer(self, name: str, default: int) -> int:
        """Return an attribute that is an integer.

        Args:
            name: Name of the attribute.
            default: Its value if it is left out.
        """
        found = self.node.attributes.get_int(name)
        return default if found is None else found

    def number(self, name: str, default: float) -> float:
        """Return an attribute that is a number, in single precision, as files hold it.

        Args:
            name: Name of the attribute.
            default: Its value if it is left out.
        """
        found = self.node.attributes.get_float(name)
        return float(np.float32(default if found is None else found))

    def text(self, name: str, default: str) -> str:
        """Return an attribute that is text.

        Args:
            name: Name of the attribute.
            default: Its value if it is left out.
        """
        found = self.node.attributes.get_string(name)
        return default if found is None else found

    def integers(self, name: str) -> list[int] | None:
        """Return an attribute that is a list of integers, if it is there."""
        found = self.node.attributes.get_ints(name)
        return None if found is None else list(found)

    def axis(self, default: int) -> int | None:
        """Return the attribute axis, counted from the front, if the rank is known."""
        axis, rank = self.integer("axis", default), self.rank()
        return None if rank is None else axis + rank * (axis < 0)


class LoweringPass(Transformation, RewriteRulePass):
    """A rule that replaces one operator by primitives.

    A subclass gives :meth:`pattern`, whose output is called ``y``, and :meth:`lowered`; where
    it must leave nodes alone, :meth:`obstacle`.

    Attributes:
        since: The first opset whose primitives are enough. Operators broadcast from 7 on.
        dtypes: The types of the first input that can be lowered.
    """

    needs = ("shape-inference",)
    since: ClassVar[int] = 7
    dtypes: ClassVar[frozenset[ir.DataType]] = FLOATS

    def check(self, context: MatchContext, y: Value, **_: Value) -> MatchResult:
        node = y.producer()
        assert node is not None, "the pattern has matched a node"
        found = MatchResult()
        opset = _opset_of(context)
        if opset is None or opset < self.since:
            return found.fail(f"it is not of an opset from {self.since} on", node)
        self._site = Site(node, opset)
        if any(out.uses() or out.is_graph_output() for out in node.outputs[1:]):
            return found.fail("its other outputs are read", node)
        if self._site.dtype not in self.dtypes:
            return found.fail("its type is not known, or none that primitives compute", node)
        reason = self.obstacle(self._site)
        return found if reason is None else found.fail(reason, node)

    def rewrite(self, op: Op, **_: Value) -> Value:
        # The driver asks `check` about the same node right before.
        return self.lowered(Primitives(op, self._site.opset, self._site.dtype), self._site)

    def obstacle(self, site: Site) -> str | None:
        """Return why a node stays, None if nothing speaks against it."""
        return None

    @abc.abstractmethod
    def lowered(self, to: Primitives, site: Site) -> Value:
        """Make the primitives, and return what replaces the node's first output.

        Args:
            to: Makes nodes in the type computed in.
            site: The node that is lowered.
        """


def _opset_of(context: MatchContext) -> int | None:
    """Return the opset that a match is of, if there is no doubt."""
    container, model = context.graph_or_function, context.model
    if isinstance(container, ir.Function) or container is model.graph:
        version: int | None = container.opset_imports.get("")
        return version
    # The body of a control-flow operator does not say which function it belongs to.
    imports = [model.opset_imports, *(f.opset_imports for f in model.functions.values())]
    versions = {found[""] for found in imports if "" in found}
    return versions.pop() if len(versions) == 1 else None
