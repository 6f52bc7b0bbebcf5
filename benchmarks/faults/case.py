"""What a planted fault is."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache
from typing import Literal, TypeAlias

import onnx
import onnx_ir as ir

from onnx_passes.passes.base import Pass
from onnx_passes.runtime.engine_base import Feeds

Setting = Literal["default", "adversarial", "given", "float64", "strict"]

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
        """The part of a text that it is from."""
        return self.cls.__module__.rpartition(".")[2]

    @property
    def description(self) -> str:
        """What is wrong, in one line."""
        return (self.cls.__doc__ or "").partition("\n")[0].rstrip(".")

    def planted(self, at: str) -> AbstractContextManager[None]:
        """Return the context in which the helper is wrong, if ``at`` is not empty."""
        return self.plant() if self.plant is not None and at else nullcontext()
