"""What a planted fault is, and the passes that carry one."""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, TypeAlias, TypeVar

import numpy as np
import onnx
import onnx_ir as ir

from onnx_passes.passes.base import Op, Pass, RewriteRulePass, Transformation, Value
from onnx_passes.passes.constants import constant_of
from onnx_passes.runtime.engine_base import Feeds

Setting = Literal["default", "adversarial", "given", "float64", "strict"]
PassT = TypeVar("PassT", bound=type[Pass])

Plant: TypeAlias = Callable[[], AbstractContextManager[None]]

EVERYWHERE = "*"


@dataclass(frozen=True)
class Source:
    """A model to plant faults in.

    Attributes:
        name: What the table calls it.
        full: Builds it.
        small: Builds a smaller one of the same structure, for tests that run often.
    """

    name: str
    full: Callable[[], onnx.ModelProto]
    small: Callable[[], onnx.ModelProto]

    def proto(self, *, full: bool) -> onnx.ModelProto:
        """Return the model, built once."""
        return _built(self.full if full else self.small)

    def model(self, *, full: bool) -> ir.Model:
        """Return a new model that a pass may change."""
        return ir.from_proto(self.proto(full=full))


@cache
def _built(build: Callable[[], onnx.ModelProto]) -> onnx.ModelProto:
    return build()


@dataclass(frozen=True, eq=False)
class Fault:
    """A pass that is wrong at one application, and a model on which that shows.

    Attributes:
        cls: The pass. Its option ``at`` names the value that it computes wrongly; with an
            empty one it is right everywhere.
        source: The model.
        place: Which application is wrong: where it stands among all of them, from 0 to 1; or
            the value that it replaces, or values; or ``EVERYWHERE``.
        needs: The setting of the gate under which inputs of the declared kind show it;
            "default" where random ones do.
        feeds: Inputs, beside random ones, that show it.
        plant: Makes a helper of the library wrong, for passes that are wrong because of it.
    """

    cls: type[Pass]
    source: Source
    place: float | str = 0.7
    needs: Setting = "default"
    feeds: tuple[Feeds, ...] = ()
    plant: Plant | None = None

    @property
    def name(self) -> str:
        """Name of the pass."""
        return self.cls.name

    @property
    def family(self) -> str:
        """The module it is from."""
        return self.cls.__module__.rpartition(".")[2]

    @property
    def description(self) -> str:
        """What is wrong, in one line."""
        return (self.cls.__doc__ or "").partition("\n")[0].rstrip(".")

    def planted(self, at: str) -> AbstractContextManager[None]:
        """Return the context in which the helper is wrong, if ``at`` is not empty."""
        return self.plant() if self.plant is not None and at else nullcontext()


FAULTS: list[Fault] = []
INNOCENTS: list[tuple[type[Pass], Source]] = []


def fault(
    source: Source,
    place: float | str = 0.7,
    *,
    needs: Setting = "default",
    feeds: Iterable[Feeds] = (),
    plant: Plant | None = None,
) -> Callable[[PassT], PassT]:
    """Enter a pass into the list of faults."""

    def enter(cls: PassT) -> PassT:
        FAULTS.append(Fault(cls, source, place, needs, tuple(feeds), plant))
        return cls

    return enter


def innocent(*sources: Source) -> Callable[[PassT], PassT]:
    """Enter a right pass into the list of passes that the gate must not refuse."""

    def enter(cls: PassT) -> PassT:
        INNOCENTS.extend((cls, source) for source in sources)
        return cls

    return enter


def guilty(at: str, out: Value) -> bool:
    """Whether the rewrite that computes a value is to be wrong."""
    return at == EVERYWHERE or out.name in at.split(",")


class Planted(Transformation, RewriteRulePass):
    """A rewrite that is wrong where its option says so.

    The value that a pattern replaces is called ``out`` in it.

    Attributes:
        at: Name of the value to compute wrongly, or names with commas between them; "*" for
            all, "" for none.
    """

    at: str = ""

    @abc.abstractmethod
    def right(self, op: Op, *args: Any, **values: Any) -> Any:
        """Build the correct replacement."""

    @abc.abstractmethod
    def wrong(self, op: Op, *args: Any, **values: Any) -> Any:
        """Build the wrong one."""

    def rewrite(self, op: Op, *args: Any, **values: Any) -> Any:
        """Build the one or the other."""
        wrong = guilty(self.at, values["out"])
        return (self.wrong if wrong else self.right)(op, **values)


class Handwritten(Transformation):
    """A pass without rules that is wrong if its option is set.

    Attributes:
        at: Where to be wrong, "" for nowhere.
    """

    at: str = ""

    @abc.abstractmethod
    def change(self, model: ir.Model) -> None:
        """Change a model in place."""

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Change the model."""
        self.change(model)
        return ir.passes.PassResult(model, modified=True)


def substitute(old: ir.Value, node: ir.Node) -> None:
    """Let a new node compute a value, under the name that it had.

    Args:
        old: The output of a node that has no other, which is removed.
        node: The new node, in no graph yet.
    """
    producer, new = old.producer(), node.outputs[0]
    assert producer is not None
    assert producer.graph is not None
    producer.graph.insert_before(producer, node)
    name, old.name = old.name, None
    new.name, new.type, new.shape = name, old.type, old.shape
    old.replace_all_uses_with(new, replace_graph_outputs=True)
    producer.graph.remove(producer, safe=True)


def initializer(graph: ir.Graph, name: str, data: Any, dtype: Any = None) -> ir.Value:
    """Add an initializer to a graph."""
    tensor = ir.tensor(np.asarray(data, dtype))
    value = ir.Value(
        name=name,
        type=ir.TensorType(tensor.dtype),
        shape=ir.Shape(tensor.shape),
        const_value=tensor,
    )
    graph.register_initializer(value)
    return value


class Unguarded(Transformation, RewriteRulePass):
    """A rewrite whose side condition is missing.

    Attributes:
        at: "" to ask for the side condition; anything else to forget it.
    """

    at: str = ""

    @abc.abstractmethod
    def sound(self, **values: Value) -> bool:
        """Whether the rewrite is right here."""

    def applies(self, **values: Value) -> bool:
        """Whether it can be made at all."""
        return True

    def check(self, context: Any, *args: Any, **values: Any) -> bool:
        """Ask the side condition, or forget it."""
        return self.applies(**values) and (bool(self.at) or self.sound(**values))


def attribute(value: Value, name: str, default: Any = None) -> Any:
    """Return an attribute of the node that computes a value."""
    producer = value.producer()
    found = producer.attributes.get(name) if producer is not None else None
    return default if found is None else found.value


def attributes(value: Value, *without: str) -> dict[str, Any]:
    """Return the attributes of the node that computes a value."""
    producer = value.producer()
    assert producer is not None
    return {k: a.value for k, a in producer.attributes.items() if k not in without}


def array(value: Value | None) -> np.ndarray[Any, Any] | None:
    """Return the constant that a value is, None if it is not a constant."""
    tensor = constant_of(value)
    return None if tensor is None else tensor.numpy()


def known(value: Value | None) -> np.ndarray[Any, Any]:
    """Return the constant that a value is known to be."""
    found = array(value)
    assert found is not None
    return found


def constant(op: Op, data: Any, dtype: Any = None) -> Any:
    """Make a Constant node."""
    return op.Constant(value=ir.tensor(np.asarray(data, dtype)))
