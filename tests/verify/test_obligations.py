"""What has to be equal after a change, and which part each value vouches for."""

import onnx_ir as ir

from onnx_passes.passes.context import Application
from onnx_passes.verify.obligations import (
    Obligation,
    find_inner,
    find_obligations,
    split_parts,
)
from onnx_passes.verify.region import changed_region

HEAD = '<ir_version: 10, opset_import: ["" : 20]> g (float[N, 4] x) => (float[N, 4] y) '


def models(*bodies):
    return [ir.from_onnx_text(HEAD + body) for body in bodies]


def application(number, *replaced, rule="rule", outermost=True):
    return Application(number, rule, f"{rule}@{number}", (), replaced, (), outermost)


def names(obligations):
    return [(one.old, one.new) for one in obligations]


def obligations(old, new, applied=()):
    before, after = models(old, new)
    region = changed_region(before, after)
    return find_obligations(region, before, after, applied)


TWO = "{ a = Exp(x) b = Abs(a) c = Neg(b) y = Sin(c) }"


def test_without_a_record_the_frontier_has_to_be_equal():
    inner = TWO.replace("c = Neg(b)", "d = Neg(a) c = Abs(d)")
    assert names(obligations(TWO, inner)) == [("c", "c")]


def test_what_a_rewrite_says_that_it_replaced_has_to_be_equal_too():
    after = "{ a = Exp(x) n = Neg(a) y = Sin(n) }"
    found = obligations(TWO, after, [application(1, ("b", "a"), ("c", "n"))])
    assert set(names(found)) == {("y", "y"), ("b", "a"), ("c", "n")}


def test_what_a_later_rewrite_replaced_again_is_followed():
    after = "{ a = Exp(x) n = Neg(a) y = Sin(n) }"
    found = obligations(TWO, after, [application(1, ("c", "m")), application(2, ("m", "n"))])
    assert ("c", "n") in names(found)


def test_rewrites_that_lead_in_a_circle_end():
    after = "{ a = Exp(x) y = Sin(a) }"
    found = obligations(TWO, after, [application(1, ("c", "m")), application(2, ("m", "c"))])
    assert ("c", "m") not in names(found)


def test_a_value_that_nothing_reads_any_more_need_not_be_equal():
    after = "{ a = Exp(x) n = Neg(a) y = Sin(a) }"
    assert ("c", "n") not in names(obligations(TWO, after, [application(1, ("c", "n"))]))


def test_a_value_that_is_computed_as_before_need_not_be_compared():
    after = TWO.replace("y = Sin(c)", "y = Cos(c)")
    assert names(obligations(TWO, after, [application(1, ("b", "b"))])) == [("y", "y")]


def test_a_constant_for_a_value_is_known_without_a_run():
    after = "{ w = Constant<value_float = 1.0>() a = Exp(x) y = Add(a, w) }"
    (_, found) = obligations(
        "{ a = Exp(x) s = Sub(a, a) c = Exp(s) y = Add(a, c) }",
        after,
        [application(1, ("c", "w"))],
    )
    assert (found.old, found.new) == ("c", "w")
    assert found.tensor.numpy() == 1


def test_names_that_were_in_use_before_are_found_and_may_differ():
    before, after = models(
        "{ a = Exp(x) b = Abs(a) y = Sin(b) }",
        "{ a = Exp(x) b = Neg(a) z = Neg(b) y = Sin(z) }",
    )
    region = changed_region(before, after)
    assert names(find_inner(region, before, {"y"})) == [("b", "b")]


CHAIN = "{ a = Exp(x) b = Abs(a) c = Sin(b) d = Abs(c) y = Neg(d) }"
BOTH = "{ a = Exp(x) b = Relu(a) c = Sin(b) d = Relu(c) y = Neg(d) }"
B, D = Obligation("b", "b"), Obligation("d", "d")


def parts(old, new, found, agreed, applied=()):
    before, after = models(old, new)
    return split_parts(changed_region(before, after), found, agreed, applied)


def test_changes_far_apart_are_parts_of_their_own():
    found, lost = parts(CHAIN, BOTH, [B, D], [B, D])
    assert [(p.text, p.obligations) for p in found] == [
        ("Abs -> Relu", [B]),
        ("Abs -> Relu", [D]),
    ]
    assert lost == []


def test_changes_side_by_side_are_one_part_unless_the_value_between_them_agrees():
    old = "{ a = Abs(x) b = Abs(a) y = Neg(b) }"
    new = "{ a = Relu(x) b = Relu(a) y = Neg(b) }"
    a = Obligation("a", "a")
    (one,), _ = parts(old, new, [a, B], [B])
    assert one.text == "2 Abs -> 2 Relu"
    assert one.obligations == [a, B]
    apart, _ = parts(old, new, [a, B], [a, B])
    assert [p.obligations for p in apart] == [[a], [B]]


def test_a_rewrite_belongs_where_what_it_replaced_was_computed():
    applied = [application(7, ("b", "b"), rule="one"), application(9, ("d", "d"), rule="two")]
    found, lost = parts(CHAIN, BOTH, [B, D], [B, D], applied)
    assert [(p.text, p.numbers) for p in found] == [("one", [7]), ("two", [9])]
    assert lost == []


def test_a_rewrite_of_which_nothing_is_left_is_told():
    gone = application(3, ("q", "r"))
    _, lost = parts(CHAIN, BOTH, [B, D], [B, D], [application(1, ("b", "b")), gone])
    assert lost == [gone]


def test_a_rewrite_of_what_another_one_made_is_of_one_part_with_it():
    applied = [application(1, ("b", "m")), application(2, ("m", "n"))]
    found, lost = parts(CHAIN, BOTH, [B, D], [B, D], applied)
    assert [p.numbers for p in found if p.numbers] == [[1, 2]]
    assert lost == []
