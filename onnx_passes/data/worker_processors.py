"""The processors of the workers: other ones can give other results in 8 bits."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes.data.evaluation_job import DataJob
from onnx_passes.errors import UsageError
from onnx_passes.model.contents import all_nodes
from onnx_passes.model.load import load_model
from onnx_passes.plain import PlainDict

_MARKS = ("QLinear", "Integer", "QuantizeLinear")


def uses_int8(model: ir.Model) -> bool:
    """Whether a model computes with quantized values."""
    return any(mark in node.op_type for node in all_nodes(model) for mark in _MARKS)


class Fleet:
    """Notes the processors that results come from.

    Args:
        job: The job.
        allow_mixed: Whether results of different processors may be joined for 8-bit models.
    """

    def __init__(self, job: DataJob, *, allow_mixed: bool) -> None:
        self._allow = allow_mixed
        self._first: str | None = None
        self._mixed = False
        self._int8 = any(uses_int8(load_model(model.path).model) for model in job.models)

    def accept(self, outcome: PlainDict) -> None:
        """Look at the outcome of a shard.

        Raises:
            UsageError: It comes from another processor, and a model computes in 8 bits.
        """
        cpu = outcome.get("worker", {}).get("cpu")
        if cpu is None or cpu == self._first:
            return
        if self._first is None:
            self._first = cpu
            return
        self._mixed = True
        if self._int8 and not self._allow:
            raise UsageError(
                "workers have different processors, which may differ in 8 bits",
                help="use machines of one kind, or accept it with --mixed-cpus",
            )

    @property
    def notes(self) -> list[str]:
        """What a report says of it."""
        if not self._mixed:
            return []
        return ["workers have different processors: results may differ in the last bits"]
