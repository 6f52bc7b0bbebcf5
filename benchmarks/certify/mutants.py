"""Make right rules wrong, one small change at a time."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import onnx_ir as ir
from onnxscript.rewriter import RewriteRule

Edit: TypeAlias = Callable[[ir.Node], bool]
"""Changes a node in place; returns whether it could."""

_SIBLINGS = {
    "Add": "Sub",
    "Sub": "Add",
    "Mul": "Add",
    "Div": "Mul",
    "Max": "Min",
    "Min": "Max",
    "And": "Or",
    "Or": "And",
    "Neg": "Abs",
    "Not": "Identity",
    "Identity": "Neg",
    "Less": "LessOrEqual",
    "Greater": "GreaterOrEqual",
    "Relu": "Abs",
    "ReduceSum": "ReduceMax",
    "Equal": "Greater",
    "Clip": "Max",
}


@dataclass(frozen=True)
class Mutant:
    """A rule with one change.

    Attributes:
        origin: Name of the rule that is right.
        change: What was changed.
        rule: The mutant.
    """

    origin: str
    change: str
    rule: RewriteRule


def mutants_of(rule: RewriteRule, nodes: Sequence[ir.Node]) -> Iterator[Mutant]:
    """Yield the mutants of one rule.

    Args:
        rule: A rule that is right.
        nodes: What its rewrite made once: changes are tried at each of these.
    """
    name = str(rule.name)
    for index, node in enumerate(nodes):
        for change, edit in edits_of(node):
            text = f"{change} of {node.op_type} {index}"
            yield Mutant(name, text, _edited(rule, index, edit, text))
    function = rule._condition_function
    yield from _guards(rule, name, function)


def edits_of(node: ir.Node) -> Iterator[tuple[str, Edit]]:
    """Yield the changes that a node takes, each with its description."""
    inputs = [v for v in node.inputs if v is not None]
    if len(inputs) >= 2:
        yield "swapped operands", _swap
        yield "the first operand twice", _repeat
    if node.op_type == "Constant":
        yield "a constant one larger", lambda n: _shift(n, 1, first=True)
        yield "a constant one smaller at its end", lambda n: _shift(n, -1, first=False)
    for attribute in node.attributes.values():
        key = attribute.name
        if attribute.type == ir.AttributeType.INT:
            yield f"{key} + 1", lambda n, k=key: _set(n, k, lambda v: v + 1)
            yield f"without {key}", lambda n, k=key: n.attributes.pop(k, None) is not None
        elif attribute.type == ir.AttributeType.INTS:
            yield f"{key} turned round", lambda n, k=key: _set(n, k, lambda v: v[::-1])
            yield f"{key} rotated", lambda n, k=key: _set(n, k, lambda v: [*v[1:], *v[:1]])
            yield f"without {key}", lambda n, k=key: n.attributes.pop(k, None) is not None
        elif attribute.type == ir.AttributeType.FLOAT:
            yield f"{key} + 0.5", lambda n, k=key: _set(n, k, lambda v: v + 0.5)
    if node.op_type in _SIBLINGS:
        sibling = _SIBLINGS[node.op_type]
        yield f"{sibling} instead", lambda n: _rename(n, sibling)
    if len(inputs) > 1 and len(node.outputs) == 1:
        yield "no operation instead", _bypass


def _edited(rule: RewriteRule, index: int, edit: Edit, text: str) -> RewriteRule:
    replacement: Any = rule._replacement_pattern
    original = replacement._function

    def mutated(op: Any, **bindings: Any) -> Any:
        outputs = original(op, **bindings)
        nodes = list(op.nodes)
        if outputs and index < len(nodes):
            edit(nodes[index])
        return outputs

    return changed(rule, text, rewrite=mutated)


def _guards(rule: RewriteRule, name: str, function: Any) -> Iterator[Mutant]:
    plain = function if isinstance(function, types.FunctionType) else None
    if plain is None or plain.__module__.startswith("onnxscript"):
        return
    yield Mutant(name, "no guard", changed(rule, "no guard", check=lambda *a, **k: True))
    for place, number in enumerate(plain.__code__.co_consts):
        if isinstance(number, int) and not isinstance(number, bool):
            for step in (1, -1):
                text = f"{number + step} for {number} in the guard"
                check = _recoded(plain, place, number + step)
                yield Mutant(name, text, changed(rule, text, check=check))


def _recoded(function: types.FunctionType, place: int, number: int) -> types.FunctionType:
    constants = list(function.__code__.co_consts)
    constants[place] = number
    code = function.__code__.replace(co_consts=tuple(constants))
    return types.FunctionType(
        code,
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )


def changed(
    rule: RewriteRule,
    text: str,
    *,
    pattern: Any = None,
    rewrite: Any = None,
    check: Any = None,
) -> RewriteRule:
    """Return a rule that is like another but for what is given.

    Args:
        rule: The other rule.
        text: What was changed; part of the name.
        pattern: Another pattern.
        rewrite: Another rewrite.
        check: Another side condition.
    """
    replacement: Any = rule._replacement_pattern
    return RewriteRule(
        pattern or rule._target_pattern,
        rewrite or replacement._function,
        check or rule._condition_function,
        name=f"{rule.name}: {text}",
        remove_nodes=rule.remove_nodes,
    )


def _swap(node: ir.Node) -> bool:
    first, second, *_ = node.inputs
    if first is second:
        return False
    node.replace_input_with(0, second)
    node.replace_input_with(1, first)
    return True


def _repeat(node: ir.Node) -> bool:
    node.replace_input_with(len(node.inputs) - 1, node.inputs[0])
    return True


def _shift(node: ir.Node, by: int, *, first: bool) -> bool:
    tensor = node.attributes["value"].as_tensor()
    array = tensor.numpy().copy()
    if array.size == 0:
        return False
    flat = array.reshape(-1)
    flat[0 if first else -1] += by
    changed = ir.tensor(np.ascontiguousarray(flat.reshape(array.shape)))
    node.attributes["value"] = ir.AttrTensor("value", changed)
    return True


def _set(node: ir.Node, name: str, change: Callable[[Any], Any]) -> bool:
    attribute = node.attributes.get(name)
    if attribute is None:
        return False
    value = change(attribute.value)
    node.attributes[name] = ir.Attr(name, attribute.type, value)
    return bool(value != attribute.value)


def _rename(node: ir.Node, op_type: str) -> bool:
    node.op_type = op_type
    if op_type in ("Max", "Min") and len(node.inputs) == 3:
        node.resize_inputs(2)
    return True


def _bypass(node: ir.Node) -> bool:
    node.op_type = "Identity"
    node.resize_inputs(1)
    for name in list(node.attributes):
        del node.attributes[name]
    return True
