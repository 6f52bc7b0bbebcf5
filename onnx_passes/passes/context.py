"""What a pass and the pipeline that runs it pass to each other.

It includes how the caller of a model calls it after a pass changed its inputs and outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.passes.patterns import NodeIndex
from onnx_passes.plain import Plain

if TYPE_CHECKING:
    from onnx_passes.passes.patterns import PatternInfo


Port: TypeAlias = Callable[[str, Any], tuple[str, Any]]
"""Takes the name of an input or output and its value, and returns both as they are there."""


@dataclass(frozen=True)
class InterfaceMap:
    """What becomes of inputs and outputs, said without a graph, so that it can be checked.

    The new model on ``inputs(x)`` must give ``outputs`` of what the old one gives on
    ``back(inputs(x))``.

    Attributes:
        inputs: From an input of the old model to that of the new one; may round.
        back: From an input of the new model to what the old one sees of it.
        outputs: From an output of the old model to that of the new one.
        wrap: Gives a model with the old interface the new one, in place.
    """

    inputs: Port
    back: Port
    outputs: Port
    wrap: Callable[[ir.Model], None]


MemoryT = TypeVar("MemoryT")


@dataclass(frozen=True)
class Application:
    """One application of a rewrite rule.

    ``number`` counts from 1 in the whole pipeline. ``key`` identifies it across runs: the rule
    and the values that it replaced. ``replaced`` has pairs of names, old and new. An
    ``outermost`` one is in the main graph. ``annotated`` says that types and shapes of all new
    values are known.
    """

    number: int
    rule: str
    key: str
    nodes: tuple[str, ...]
    replaced: tuple[tuple[str, str], ...]
    new_nodes: tuple[str, ...]
    outermost: bool = True
    annotated: bool = False


@dataclass
class Rewrites:
    """Which rewrites may be applied, and which were, in the whole pipeline.

    At ``limit`` applications no other is made; None for no limit. Bisection and rollback
    ``skip`` keys; without ``only``, all others are admitted. ``index`` is dropped where passes
    have changed the model since.
    """

    limit: int | None = None
    skip: frozenset[str] = frozenset()
    only: frozenset[str] | None = None
    applied: list[Application] = field(default_factory=list)
    index: NodeIndex | None = field(default=None, repr=False, compare=False)

    def admits(self, key: str) -> bool:
        """Whether the application with that key may be made now."""
        allowed = self.only is None or key in self.only
        return allowed and key not in self.skip and not self.exhausted

    @property
    def exhausted(self) -> bool:
        """Whether the limit is reached."""
        return self.limit is not None and len(self.applied) >= self.limit


@dataclass
class PassContext:
    """What a pass may read and write besides the model.

    ``file_bytes`` is about the size of the original's file, less what folding added in earlier
    runs. ``samples`` are the user's under ``reference``, ``made_up`` what is generated in
    their place. ``ranges`` and ``values`` (inner ones too, sample by sample) are of the user's
    data, where recorded before the pass. ``scaled`` has by new value the recorded one, and
    factors that broadcast. ``memories`` are what passes keep from turn to turn, by what makes
    it. ``refined`` has by value its shape, and dimensions of it that rules have found, as long
    as passes keep the shapes of values.
    """

    rewrites: Rewrites = field(default_factory=Rewrites)
    analyses: dict[str, object] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    file_bytes: int | None = None
    samples: Sequence[Mapping[str, Plain]] = ()
    made_up: Sequence[Mapping[str, Plain]] = ()
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    values: Sequence[Mapping[str, Array]] = ()
    scaled: dict[str, tuple[str, Array]] = field(default_factory=dict)
    # Their functions are methods of passes that have this very context: no copy has them.
    rules: dict[Hashable, list[PatternInfo]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    memories: dict[Callable[[], object], object] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    refined: dict[ir.Value, tuple[ir.Shape, list[int | str | None]]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def remembered(self, make: Callable[[], MemoryT]) -> MemoryT:
        """Return what a pass remembers in this run, made when it is first asked for."""
        return cast("MemoryT", self.memories.setdefault(make, make()))

    def analysis(self, name: str) -> Any:
        """Return the result of an analysis that the pass needs.

        Raises KeyError unless it is among the ``needs`` of the pass.
        """
        return self.analyses[name]
