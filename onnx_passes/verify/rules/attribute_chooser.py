"""Choose the attributes of the nodes that a pattern names."""

from __future__ import annotations

from collections.abc import Hashable

from onnx_passes.ops.input_hints import Shape
from onnx_passes.ops.operator_class import find
from onnx_passes.plain import Plain, PlainDict
from onnx_passes.verify.rules.attributes import attribute_value
from onnx_passes.verify.rules.hinted_operands import Guide
from onnx_passes.verify.rules.pattern import PatternPart
from onnx_passes.verify.rules.plausible_operands import Chooser
from onnx_passes.verify.rules.schemas import attribute_names


class AttributeChooser:
    """Chooses attributes; variables of one name have one value in the whole model."""

    def __init__(self, chooser: Chooser, guide: Guide, opset: int) -> None:
        """Begin a model.

        Args:
            chooser: The choices.
            guide: What the hint of the rule says.
            opset: Version of the main domain.
        """
        self._choose, self._guide, self._opset = chooser, guide, opset
        self._chosen: dict[Hashable, Plain] = {}
        self._further_odds = float(chooser.pick((0.05, 0.3, 0.6)))

    def values(
        self, pattern: PatternPart, domain: str, op_type: str, known: list[Shape | None]
    ) -> PlainDict:
        """Return the attributes of a node by name.

        Args:
            pattern: The node of the pattern.
            domain: Domain of its operator.
            op_type: Its operator.
            known: Shapes of its operands; None for one that is left out.
        """
        given: PlainDict = {}
        for name, attribute in pattern.attributes.items():
            fixed = getattr(attribute, "_value", None)
            if fixed is not None:
                given[name] = fixed
                continue
            if attribute.can_match_none and self._choose.rng.random() < 0.4:
                continue
            key = attribute.name or (id(pattern), name)
            if key not in self._chosen:
                self._chosen[key] = self._attribute(op_type, name, known)
            if self._chosen[key] is not None:
                given[name] = self._chosen[key]
        if pattern.allow_other_attributes:
            given.update(self._unmentioned(domain, op_type, known, given))
        return given

    def _attribute(self, op_type: str, name: str, known: list[Shape | None]) -> Plain:
        for hinted in self._guide.attribute(op_type, name):
            return hinted
        return attribute_value(self._choose, op_type, name, known)

    def _unmentioned(
        self, domain: str, op_type: str, known: list[Shape | None], given: PlainDict
    ) -> PlainDict:
        extra: PlainDict = {}
        described = find(domain, op_type, self._opset)
        alone = described is not None and described.one_attribute
        for name, required in attribute_names(domain, op_type, self._opset).items():
            if alone and (given or extra):
                break
            wanted = required or self._guide.offers(op_type, name)
            wanted = wanted or (described is not None and name in described.wants)
            if name in given or not (wanted or self._choose.rng.random() < self._further_odds):
                continue
            value = self._attribute(op_type, name, known)
            if value is not None:
                extra[name] = value
        return extra
