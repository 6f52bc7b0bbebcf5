"""The base class of tests of passes that were written beside the seed system."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from onnx_passes.model.diff import explain_difference, structurally_equal
from onnx_passes.passes.base import Pass
from onnx_passes.passes.registry import collect
from onnx_passes.plain import Plain, PlainDict


class PassesTestBase:
    """Applies passes to a model, which they verify, and compares it with another one.

    A subclass sets ``__passes__``, and functions of onnxscript as ``__model__`` and
    ``__expected__``. ``__inputs__`` returns arrays on which each pass checks itself. What is
    not set is not tested.
    """

    __passes__: Sequence[str | type[Pass]] = ()
    __common__: Sequence[str | type[Pass]] = ("cleanup", "checker", "verify")
    __model__: Plain = None
    __expected__: Plain = None
    __inputs__: Plain = None
    __config__: PlainDict | None = None
    __state__: PlainDict | None = None

    def test_apply_and_verify(self) -> None:
        """Apply the passes to the model."""
        if self.__passes__ and self.__model__ is not None:
            self._applied([*self.__common__, *self.__passes__], self.__model__)

    def test_isomorphic_to_expected(self) -> None:
        """Compare the result with the expected model, up to names."""
        if not self.__passes__ or self.__model__ is None or self.__expected__ is None:
            return
        steps = [*self.__common__, *self.__passes__, *self.__common__]
        found = self._applied(steps, self.__model__)
        expected = self._applied(self.__common__, self.__expected__)
        assert structurally_equal(found, expected), explain_difference(found, expected)

    def _applied(self, steps: Sequence[str | type[Pass]], function: Plain) -> ir.Model:
        config = dict(self.__config__ or {})
        if self.__inputs__ is not None:
            config.setdefault("verify", {True: True})
            config["reference"] = {"inp": self.__inputs__()}
        state = {} if self.__state__ is None else self.__state__
        manager = ir.passes.PassManager(
            [cls(config, state) for cls in collect(steps)], steps=1
        )
        return manager(ir.from_proto(function.to_model_proto())).model
