"""Several passes under one name."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import ClassVar

import onnx_ir as ir

from onnx_passes.contracts import Contract, weakest
from onnx_passes.errors import FixpointError
from onnx_passes.model.digest import canonical_hash
from onnx_passes.passes.base import Analysis, Pass
from onnx_passes.passes.pass_scope import scope_of
from onnx_passes.passes.registry import collect
from onnx_passes.passes.replace import reserve_names

MAX_ROUNDS = 100


class ComposePass(Pass, abc.ABC):
    """A sequence of passes, once or until the model stops changing.

    In a pipeline each pass of the sequence is checked on its own, then the whole. Unless it
    declares a contract, it has the weakest of its parts.

    Attributes:
        __passes__: Names or classes, in order.
        __exhaustive__: Whether to repeat them until the model stops changing.
    """

    __passes__: ClassVar[Sequence[str | type[Pass]]] = ()
    __exhaustive__: ClassVar[bool] = False

    @classmethod
    def contracts(cls) -> tuple[Contract, ...]:
        """Return what it declares, or what its parts promise as one."""
        return super().contracts() or weakest(part.contracts() for part in cls._changing())

    @classmethod
    def lacks_contract(cls) -> str:
        """Return which of its parts declares no contract."""
        lacking = next((part for part in cls._changing() if not part.contracts()), None)
        name = "the pass" if lacking is None else f"its part {lacking.name}"
        return f"{name} declares no contract"

    @classmethod
    def _changing(cls) -> list[type[Pass]]:
        parts = collect(cls.__passes__, scope_of(cls, ()))
        return [part for part in parts if not issubclass(part, Analysis)]

    @property
    def in_place(self) -> bool:
        """Whether every pass of the sequence is."""
        return all(p.in_place for p in self.passes())

    @property
    def changes_input(self) -> bool:
        """Whether any pass of the sequence does."""
        return any(p.changes_input for p in self.passes())

    def passes(self) -> list[Pass]:
        """Return the passes of the sequence, sharing config, state and context."""
        scope = scope_of(type(self), self.config.get("imports") or ())
        classes = collect(self.__passes__, scope)
        found = [cls(self.config, self.state_dict) for cls in classes]
        for pass_ in found:
            pass_.context = self.context
        return found

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Run the sequence, outside of a pipeline."""
        with reserve_names(model):
            return self._run(model)

    def _run(self, model: ir.Model) -> ir.passes.PassResult:
        before = canonical_hash(model)
        seen = {before}
        for _ in range(MAX_ROUNDS):
            result: ir.passes.PassResult = ir.passes.PassResult(model, modified=False)
            for pass_ in self.passes():
                result = pass_(result)
            model = result.model
            now = canonical_hash(model)
            if not self.__exhaustive__ or now in seen:
                return ir.passes.PassResult(model, modified=now != before)
            seen.add(now)
        raise FixpointError(
            f"{self.name} still changes the model after {MAX_ROUNDS} rounds",
            help=f"run its passes one by one: {', '.join(p.name for p in self.passes())}",
        )
