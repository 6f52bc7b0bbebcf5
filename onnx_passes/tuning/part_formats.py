"""Formats that a part of a model may have: a pass, and its options."""

from __future__ import annotations

import glob
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import onnx_ir as ir

from onnx_passes.model.copy import copy_model
from onnx_passes.model.walk import subgraphs_of
from onnx_passes.passes.context import PassContext
from onnx_passes.passes.precision._node_selection import OnData
from onnx_passes.passes.registry import lookup
from onnx_passes.plain import PlainDict, PlainMapping

Steps: TypeAlias = tuple[tuple[str, PlainMapping], ...]
COMPENSATING = "quantize-weights-gptq"
SMOOTHING = "smooth-activations"
_LEARNERS = (COMPENSATING, "quantize-weights-adaround", "correct-biases")
FLOAT32 = "float32"
"""The format of a part that stays as it is."""


@dataclass(frozen=True)
class Format:
    """A format.

    Attributes:
        name: What a user calls it.
        pass_name: The pass that gives a part the format.
        options: Of the pass.
        weight_bits: Bits of a weight.
        data_bits: Bits of a computed value.
        before: Passes that run before it, on the same nodes, and their options.
        after: Passes that run after it.
    """

    name: str
    pass_name: str
    options: PlainMapping = field(default_factory=dict)
    weight_bits: int = 32
    data_bits: int = 32
    before: Steps = ()
    after: Steps = ()

    @property
    def rank(self) -> int:
        """Where its pass stands among others: types of values change last."""
        return 1 if self.pass_name in ("convert-float16", "convert-bfloat16") else 0

    @property
    def typical_snr(self) -> float:
        """The signal-to-noise ratio that it often leaves, in dB: 6 a bit, and outliers."""
        return 6.0 * min(self.weight_bits, self.data_bits) - 10.0

    @property
    def is_smoothed(self) -> bool:
        """Whether scales move from values to weights before they are rounded."""
        return any(name == SMOOTHING for name, _ in self.before)

    @property
    def slack(self) -> float:
        """By how many steps a weight may be off beyond what rounding to the nearest does."""
        return {"quantize-weights-adaround": 0.5, COMPENSATING: 7.5}.get(self.pass_name, 0.0)

    @property
    def steps(self) -> Steps:
        """All passes in order."""
        return (*self.before, (self.pass_name, self.options), *self.after)

    @property
    def learns(self) -> bool:
        """Whether weights or biases are chosen by what layers compute on the user's data."""
        return any(name in _LEARNERS for name, _ in self.steps)

    @property
    def needs_values(self) -> bool:
        """Whether a pass asks what layers read."""
        return any(issubclass(lookup(name)[0], OnData) for name, _ in self.steps if name)


def _weights(name: str, bits: int, **options: object) -> Format:
    return Format(name, "quantize-weights", {"least": 1} | options, bits, 32)


_NBITS = {"form": "matmulnbits", "block": 32}
_BY_INT8 = {**_NBITS, "compute": "int8"}
_INT4, _INT2 = {"weights": "int4", "block": 32}, {"weights": "int2", "block": 32}
_CORRECTED: Steps = (("correct-biases", {}),)
_SMOOTH: Steps = ((SMOOTHING, {}),)


def _make_learned(name: str, how: str, bits: int, **options: object) -> Format:
    return Format(name, f"quantize-weights-{how}", {"least": 1} | options, bits, 32)


BUILTIN = {
    item.name: item
    for item in (
        Format(FLOAT32, ""),
        Format("float16", "convert-float16", {}, 16, 16),
        Format("bfloat16", "convert-bfloat16", {"missing": "round"}, 16, 16),
        Format("int8-static", "quantize-static", {}, 8, 8),
        Format("int8-dynamic", "quantize-dynamic", {"least": 1}, 8, 8),
        _weights("int8-weights", 8),
        _weights("int4-weights", 4, weights="int4", block=32),
        _weights("int8-nbits", 8, weights="uint8", **_NBITS),
        _weights("int4-nbits", 4, weights="uint4", **_NBITS),
        replace(_weights("int8-nbits-dynamic", 8, weights="uint8", **_BY_INT8), data_bits=8),
        replace(_weights("int4-nbits-dynamic", 4, weights="uint4", **_BY_INT8), data_bits=8),
        Format("float8", "convert-float8", {"scaled": True}, 8, 8),
        Format("int8-tensorrt", "quantize-static", {}, 8, 8, after=(("place-qdq", {}),)),
        Format("int8-static-corrected", "quantize-static", {}, 8, 8, after=_CORRECTED),
        Format("int8-static-smooth", "quantize-static", {}, 8, 8, _SMOOTH, _CORRECTED),
        Format("int8-dynamic-smooth", "quantize-dynamic", {"least": 1}, 8, 8, _SMOOTH),
        _make_learned("int8-adaround", "adaround", 8),
        _make_learned("int4-adaround", "adaround", 4, **_INT4),
        _make_learned("int4-gptq", "gptq", 4, **_INT4),
        _make_learned("int4-gptq-nbits", "gptq", 4, **{**_NBITS, "weights": "uint4"}),
        replace(
            _make_learned(
                "int4-gptq-nbits-dynamic", "gptq", 4, **{**_BY_INT8, "weights": "uint4"}
            ),
            data_bits=8,
        ),
        _weights("int2-weights", 2, **_INT2),
        _make_learned("int2-gptq", "gptq", 2, **_INT2),
    )
}
"""Formats that have a name."""


@dataclass
class Observed:
    """What was recorded of the original on a few samples.

    Attributes:
        ranges: Least and greatest element of values by name.
        values: Values by name, sample by sample; of what layers read, if a format asks.
        state: What passes share; it lasts as long as the values.
    """

    ranges: dict[str, tuple[float, float]] = field(default_factory=dict)
    values: Sequence[PlainMapping] = ()
    state: PlainDict = field(default_factory=dict)


def convert(
    model: ir.Model,
    chosen: Mapping[str, Sequence[str]],
    formats: Mapping[str, Format],
    known: Observed,
) -> ir.Model:
    """Return a model some of whose nodes have another format.

    Args:
        model: It is not changed. Its nodes have names, and its values types.
        chosen: Names of nodes by format; what is not among them stays as it is.
        formats: The formats by name.
        known: What was recorded of the original.

    Raises:
        PassError: A pass refuses the model.
    """
    copy = copy_model(model)
    # The name of a node with a body would mean all that is in it.
    holders = {str(n.name) for n in copy.graph.all_nodes() if any(subgraphs_of(n))}
    chosen = {item: [n for n in nodes if n not in holders] for item, nodes in chosen.items()}
    used = [formats[name] for name, nodes in chosen.items() if nodes and name != FLOAT32]
    for item in sorted(used, key=lambda one: (one.rank, one.name)):
        names = [glob.escape(name) for name in chosen[item.name]]
        context = PassContext(ranges=known.ranges, values=known.values)
        for pass_name, options in item.steps:
            (cls,) = lookup(pass_name)
            pass_ = cls(None, known.state, **options, nodes=names)
            pass_.context = context
            pass_.call(copy)
    return copy


def by_format(
    groups: Mapping[str, Sequence[str]], names: Mapping[str, str]
) -> dict[str, list[str]]:
    """Return the names of nodes by format.

    Args:
        groups: Names of nodes by group.
        names: Format by group.
    """
    found: dict[str, list[str]] = {}
    for group, name in names.items():
        found.setdefault(name, []).extend(groups[group])
    return found
