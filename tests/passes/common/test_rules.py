"""Rules as data: what they match, what they find, and what they make of it."""

import onnx_ir as ir

from onnx_passes import testing
from onnx_passes.passes.common.rules import RulePass, TermRule, always, call, law

ADDITION = call("Add", call("Mul", "x", "s"), "y")


class Sharing(RulePass):
    """Replaces a sum with a product by the product; counts what it looks for."""

    def __init__(self, since=0):
        super().__init__()
        self.looked = 0
        self.since = since

    def table(self):
        return [
            TermRule(
                ADDITION, self._find, lambda op, v, found: op.Mul(v["x"], found), self.since
            )
        ]

    def _find(self, values):
        self.looked += 1
        return values["s"] if values.opset < 30 else None


GRAPH = """<ir_version: 8, opset_import: ["": 18]> g (float[3] x, float[3] s, float[3] y)
=> (float[3] z) { m = Mul(x, s) z = Add(m, y) }"""


def test_what_a_rule_finds_is_what_its_replacement_is_given():
    model, sharing = testing.parse(GRAPH), Sharing()
    assert sharing(model).modified
    assert [node.op_type for node in model.graph] == ["Mul"]
    assert list(model.graph.node(0).inputs) == [model.graph.inputs[0], model.graph.inputs[1]]
    assert sharing.looked == 1


def test_operands_stand_in_each_order_once():
    both = law(call("And", "x", call("Or", "x", "y")), "x").orders()
    assert len({str(rule.before) for rule in both}) == len(both) == 4
    assert len(law(call("And", call("Not", "a"), call("Not", "b")), "a").orders()) == 1


def test_a_law_that_something_must_hold_for_keeps_orders_that_its_names_tell_apart():
    held = law(call("Mul", "x", "c"), "x", lambda v: v["c"].dtype == ir.DataType.FLOAT)
    assert [str(rule.before) for rule in held.orders()] == ["Mul(x, c)", "Mul(c, x)"]
    assert len(law(held.before, "x").orders()) == 1
    assert held.find is not always
