"""What a verdict on a rule covers, as data: ranks, types, opsets, attributes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import onnx_ir as ir

from onnx_passes.plain import PlainDict
from onnx_passes.verify.rules.schemas import attribute_names

_VALUES = (ir.AttributeType.INT, ir.AttributeType.STRING)
"""Attributes of these types differ by value, others by whether they are given."""

_NOTHING: tuple[set[int], set[str], set[bool]] = (set(), set(), set())
LEFT_OUT, GIVEN = "left out", "given"


@dataclass(frozen=True)
class Template:
    """One model that a verdict rests on, as far as a claim distinguishes models.

    Attributes:
        operands: Rank, element type, and whether it is a constant, by name in the pattern. An
            operand that the pattern does not name has the operator and the index of the input.
        opset: Version of the main domain.
        attributes: Values by operator, a dot, and name.
    """

    operands: dict[str, tuple[int, str, bool]]
    opset: int
    attributes: dict[str, set[str]]


@dataclass
class Covered:
    """What a set of templates covers; anything else is excluded from the claim.

    Attributes:
        templates: How many there are.
        operands: By name: ranks, element types, and whether they were constants.
        opsets: Of the main domain.
        attributes: Values by operator, a dot, and name.
    """

    templates: int = 0
    operands: dict[str, tuple[set[int], set[str], set[bool]]] = field(default_factory=dict)
    opsets: set[int] = field(default_factory=set)
    attributes: dict[str, set[str]] = field(default_factory=dict)

    def add(self, template: Template) -> None:
        """Widen the claim by one template."""
        self.templates += 1
        self.opsets.add(template.opset)
        for name, parts in template.operands.items():
            ranks, types, constant = self.operands.setdefault(name, (set(), set(), set()))
            rank, dtype, is_constant = parts
            ranks.add(rank)
            types.add(dtype)
            constant.add(is_constant)
        for key, given in template.attributes.items():
            self.attributes.setdefault(key, set()).update(given)

    def holds(self, template: Template) -> bool:
        """Whether a template is one that the claim speaks of."""
        if template.opset not in self.opsets:
            return False
        for name, parts in template.operands.items():
            rank, dtype, constant = parts
            ranks, types, constants = self.operands.get(name, _NOTHING)
            if rank not in ranks or dtype not in types or constant not in constants:
                return False
        return all(
            given <= self.attributes.get(key, set())
            for key, given in template.attributes.items()
        )

    def as_dict(self) -> PlainDict:
        """Return the claim as JSON has it."""
        return {
            "templates": self.templates,
            "operands": {
                name: {
                    "ranks": sorted(ranks),
                    "types": sorted(types),
                    "constant": sorted(constant),
                }
                for name, (ranks, types, constant) in sorted(self.operands.items())
            },
            "opsets": sorted(self.opsets),
            "attributes": {k: sorted(v) for k, v in sorted(self.attributes.items())},
        }


def covered_by(templates: Iterable[Template]) -> Covered:
    """Return what templates cover together."""
    found = Covered()
    for template in templates:
        found.add(template)
    return found


def describe(model: ir.Model, names: Iterable[str]) -> Template:
    """Return what a claim says of one model.

    Args:
        model: Built from the pattern; values are named as its variables are.
        names: The names of the variables.
    """
    named = set(names)
    operands: dict[str, tuple[int, str, bool]] = {}
    attributes: dict[str, set[str]] = {}
    for node in model.graph:
        if node.op_type == "Constant":
            continue
        for name in _attribute_names(node, model):
            given = node.attributes.get(name)
            key = f"{node.op_type}.{name}"
            attributes.setdefault(key, set()).add(_shown(given))
        for index, value in enumerate(node.inputs):
            producer = None if value is None else value.producer()
            if value is None or (producer is not None and producer.op_type != "Constant"):
                continue
            role = str(value.name) if value.name in named else f"{node.op_type}.{index}"
            dtype = "UNDEFINED" if value.dtype is None else value.dtype.name
            rank = 0 if value.shape is None else len(value.shape)
            constant = producer is not None or value.is_initializer()
            operands[role] = rank, dtype, constant
    return Template(operands, model.graph.opset_imports.get("", 0), attributes)


def _attribute_names(node: ir.Node, model: ir.Model) -> list[str]:
    opset = model.graph.opset_imports.get("", 0)
    return sorted({*node.attributes, *attribute_names(node.domain, node.op_type, opset)})


def _shown(attribute: ir.Attr | None) -> str:
    if attribute is None:
        return LEFT_OUT
    return str(attribute.value) if attribute.type in _VALUES else GIVEN
