"""What an engine is: something that makes a model ready and runs it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol, TypeAlias, runtime_checkable

import onnx_ir as ir

from onnx_passes.arrays import Array as Array
from onnx_passes.plain import PlainDict
from onnx_passes.risky_runs import avoided

Data: TypeAlias = "Array | list[Data] | None"
"""What a value holds at run time: a tensor, a sequence of them, or an empty optional."""
Feeds: TypeAlias = Mapping[str, Data]
Outputs: TypeAlias = dict[str, Data]


class MadeUpFeeds(dict[str, Data]):
    """Inputs that nobody gave, arrays by name.

    Attributes:
        label: What a run on them is called.
    """

    def __init__(self, feeds: Feeds, label: str) -> None:
        """Copy feeds, whose arrays are shared."""
        super().__init__(feeds)
        self.label = label

    @property
    def may_run(self) -> bool:
        """Whether no engine has ended the process on inputs of this label."""
        return avoided(self.label) is None


def label_of_feeds(feeds: Feeds) -> str | None:
    """Return what a run on inputs is called; None if they were given."""
    return feeds.label if isinstance(feeds, MadeUpFeeds) else None


class Session(Protocol):
    """A model made ready to run."""

    def run(self, feeds: Feeds, outputs: Sequence[str] | None = None) -> Outputs:
        """Run once.

        Args:
            feeds: A value for every graph input that has no initializer, by name. Types that
                numpy lacks (bfloat16, float8, int4) come as ``ml_dtypes`` arrays.
            outputs: The outputs wanted, in this order; None for all.

        Returns:
            The outputs by name, in graph order, with dtypes as the model declares them.

        Raises:
            EngineError: The engine failed while running; the message is the engine's own.
        """
        ...


@runtime_checkable
class TimedSession(Session, Protocol):
    """A session that times runs by itself, where it is closer to them."""

    def time_runs(self, feeds: Feeds, warm_up: int, iterations: int) -> list[float]:
        """Return the seconds of single runs; see :func:`onnx_passes.runtime.timing.time_runs`.

        Args:
            feeds: Values by input.
            warm_up: Number of runs before those that count.
            iterations: Number of runs that count.
        """
        ...


@runtime_checkable
class LayeredSession(Session, Protocol):
    """A session that reports the layers of what it runs."""

    def layers(self) -> list[PlainDict]:
        """Return layers as plain data; see :class:`onnx_passes.runtime.layers.EngineLayer`."""
        ...


class Engine(Protocol):
    """Something that can run a model. Immutable, hashable and picklable."""

    @property
    def name(self) -> str:
        """The name a report shows, options that matter included."""
        ...

    def describe(self) -> dict[str, str | int | float | bool]:
        """What a report must record for the numbers to be repeated: versions, options."""
        ...

    def prepare(self, model: ir.Model) -> AbstractContextManager[Session]:
        """Make ``model`` ready without changing it, or serialising its weights.

        Raises:
            EngineUnavailableError: The engine or its provider is not on this machine.
            UnsupportedModelError: The engine lacks an operator or type of the model.
            EngineError: The engine refuses the model for another reason.
        """
        ...


def only_compiles(engine: Engine) -> bool:
    """Whether an engine compiles models, and executes them only where it finds a GPU."""
    return bool(getattr(engine, "only_compiles", False))
