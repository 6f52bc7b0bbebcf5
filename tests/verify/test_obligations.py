import onnx_ir as ir

from onnx_passes.passes.context import Application
from onnx_passes.verify.obligations import (
    Obligation,
    _Changed,
    compute_alike,
    find_inner,
    find_obligations,
    find_proved,
    split_parts,
)
from onnx_passes.verify.region import changed_region
from tests.tables import each_of, each_row

HEAD = '<ir_version: 10, opset_import: ["" : 20]> g (float[N, 4] x) => (float[N, 4] y) '


def models(*bodies):
    return [ir.from_onnx_text(HEAD + body) for body in bodies]


def application(number, *replaced, rule="rule", outermost=True):
    return Application(number, rule, f"{rule}@{number}", (), replaced, (), outermost)


def names(obligations):
    return [(one.old, one.new) for one in obligations]


def obligations(old, new, applied=()):
    before, after = models(old, new)
    return find_obligations(changed_region(before, after), before, after, applied)


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


HEAD_ALIKE = '<ir_version: 10, opset_import: ["" : 20]> g '
BASE = """(float[N, 4] x, bool c) => (float[N, 4] y)
    <float[4] w = {1, 2, 3, 4}> { a = Exp(x) b = Mul(a, w) d = Sub(b, a) y = Neg(d) }"""
LOOP = """(float[N] x, bool c) => (float[N] y) {
    k = Exp(x)
    y = If(c) <
        then_branch = t () => (float[N] o) { m = Abs(k) o = Sub(m, x) },
        else_branch = e () => (float[N] p) { p = Neg(k) }
    >
}"""


def alike(before, after):
    return compute_alike(
        ir.from_onnx_text(HEAD_ALIKE + before), ir.from_onnx_text(HEAD_ALIKE + after)
    )


@each_of(
    "old, new",
    ("", ""),
    ("a = Exp(x) b = Mul(a, w) d = Sub(b, a)", "q = Exp(x) r = Mul(q, w) d = Sub(r, q)"),
    ("y = Neg(d)", "y = Neg(d) unused = Abs(d)"),
    ("y = Neg(d)", "n = Neg(d) y = Identity(n)"),
    ("b = Mul(a, w)", "e = Exp(x) b = Mul(e, w)"),
    ("<float[4] w = {1, 2, 3, 4}> { a", "{ w = Constant<value = float[4] {1, 2, 3, 4}>() a"),
    ids=[
        *("same", "other names", "a node that nothing reads", "an Identity"),
        *("computed twice", "a constant stored elsewhere"),
    ],
)
def test_names_and_storage_do_not_matter(old, new):
    assert old in BASE
    assert alike(BASE, BASE.replace(old, new) if old else BASE)


@each_row("""old | new
- Sub(b, a) | Sub(a, b)
- Exp(x) | Sin(x)
- 3, 4} | 3, 5}
- Mul(a, w) | Mul(a, x)
- Sub(b, a) | Sub(b, x)
- Exp(x) | Identity(x)
""")
def test_operands_operators_and_constants_do(old, new):
    assert old in BASE
    assert not alike(BASE, BASE.replace(old, new))


@each_row("""old | new | expected
- m = Abs(k) o = Sub(m, x) | n = Abs(k) o = Sub(n, x) | =True
- Sub(m, x) | Sub(x, m) | =False
- Sub(m, x) | Sub(m, k) | =False
- p = Neg(k) | p = Neg(x) | =False
- p = Neg(k) | p = Abs(k) | =False
""")
def test_bodies_are_walked_too(old, new, expected):
    assert old in LOOP
    assert alike(LOOP, LOOP.replace(old, new)) is expected


@each_of("attribute, expected", ("axis = 1", True), ("axis = 0", False), ids=["same", "other"])
def test_attributes_are_compared(attribute, expected):
    body = "(float[2, 2] x) => (float[2, 2] y) {{ y = Softmax<{}>(x) }}"
    assert alike(body.format("axis = 1"), body.format(attribute)) is expected


@each_of("operator, expected", ("Exp", True), ("RandomNormalLike", False))
def test_equal_nodes_may_be_one_unless_they_draw_numbers(operator, expected):
    body = (
        f"(float[N] x) => (float[N] y) {{ a = {operator}(x) b = {operator}(x) y = Sub(a, b) }}"
    )
    merged = f"(float[N] x) => (float[N] y) {{ a = {operator}(x) y = Sub(a, a) }}"
    assert alike(body, merged) is expected
    assert alike(body, body)


def test_two_outputs_of_one_node_are_not_exchanged():
    body = "(float[4] x) => (float[2] {}) {{ p, q = Split<num_outputs = 2>(x) }}"
    assert not alike(body.format("p, float[2] q"), body.format("q, float[2] p"))


FUNCTIONS = """(float[N] x) => (float[N] y) {{ y = my.f<alpha = 1.0>(x) }}
<domain: "my", opset_import: ["" : 20]> f <alpha> (a) => (b) {{ {} }}"""


@each_row("""body | expected
- c = Exp(a) b = Neg(c) | =True
- d = Exp(a) b = Neg(d) | =True
- c = Sin(a) b = Neg(c) | =False
- c = Exp(a) b = Neg(a) | =False
""")
def test_bodies_of_functions_are_compared(body, expected):
    head = '<ir_version: 10, opset_import: ["" : 20, "my" : 1]> g '
    old, new = (
        ir.from_onnx_text(head + FUNCTIONS.format(b)) for b in ("c = Exp(a) b = Neg(c)", body)
    )
    assert compute_alike(old, new) is expected


CALLED = """<ir_version: 10, opset_import: ["" : 20, "my" : 1]> g
(float[N, 2] x) => (float[N, 2] y) { y = my.f<alpha = 2.0>(x) }
<domain: "my", opset_import: ["" : 20]> f <alpha> (a) => (b) {
    c = LeakyRelu<alpha: float = @alpha>(a) b = Neg(c) }"""


@each_of("alpha, expected", ("2.0", True), ("1.0", False))
def test_a_call_is_what_its_function_computes(alpha, expected):
    inlined = "(float[N, 2] x) => (float[N, 2] y) { c = LeakyRelu<alpha = A>(x) y = Neg(c) }"
    new = ir.from_onnx_text(HEAD_ALIKE + inlined.replace("A", alpha))
    assert compute_alike(ir.from_onnx_text(CALLED), new) is expected


SHADOWING = """<ir_version: 10, opset_import: ["" : 20, "com.microsoft" : 1]> g
(float[2] x) => (float[2] y) { y = com.microsoft.QuickGelu(x) }
<domain: "com.microsoft", opset_import: ["" : 20]> QuickGelu (a) => (b) { b = Neg(a) }"""


def test_a_call_that_may_mean_an_operator_is_more_than_what_its_function_computes():
    new = ir.from_onnx_text(HEAD_ALIKE + "(float[2] x) => (float[2] y) { y = Neg(x) }")
    assert not compute_alike(ir.from_onnx_text(SHADOWING), new)
    changed = ir.from_onnx_text(SHADOWING.replace("Neg", "Exp"))
    assert not compute_alike(ir.from_onnx_text(SHADOWING), changed)
    assert compute_alike(*(ir.from_onnx_text(SHADOWING) for _ in "ab"))


@each_of("operator, expected", ("Exp", True), ("Softmax", False), ("Custom", False))
def test_the_version_of_each_operator_is_compared(operator, expected):
    body = f"(float[N, 2, 2] x) => (float[N, 2, 2] y) {{ y = {operator}(x) }}"
    old, new = (ir.from_onnx_text(HEAD_ALIKE.replace("20", v) + body) for v in ("12", "13"))
    assert compute_alike(old, new) is expected


ITERATED = """(float[2] x, int64 n) => (float[2] y) <bool c = {{1}}, float[2] w = {{1, 2}}> {{
    y{more} = Loop (n, c, x{start}) <body = b (int64 i, bool k, float[2] s{state}) =>
        (bool l, float[2] t{result}) {{ l = Identity(k) t = Add(s, {read}) {inside} }}> }}"""
UNUSED = {"more": ", z", "start": ", w", "state": ", float[2] u", "result": ", float[2] v"}
ALONE = dict.fromkeys((*UNUSED, "inside"), "") | {"read": "s"}


@each_row("""read | inside | expected
state of its own: s | v = Exp(u) | =True
state that reads it: s | v = Add(s, u) | =True
state that it reads: u | v = Exp(u) | =False
""")
def test_state_of_a_loop_that_nothing_reads_does_not_matter(read, inside, expected):
    unused = ITERATED.format(**UNUSED, read=read, inside=inside)
    assert alike(unused, ITERATED.format(**ALONE)) is expected


def test_a_loop_with_another_start_is_another_loop():
    old = ITERATED.format(**ALONE)
    assert alike(old, old)
    assert not alike(old, old.replace("(n, c, x)", "(n, c, w)"))


def test_each_result_of_an_if_is_by_itself():
    both = """(float[2] x, bool c) => (float[2] y) { z, y = If(c) <
        then_branch = t () => (float[2] p, float[2] q) { p = Exp(x) q = Neg(x) },
        else_branch = e () => (float[2] r, float[2] s) { r = Abs(x) s = Sin(x) }> }"""
    one = """(float[2] x, bool c) => (float[2] y) { y = If(c) <
        then_branch = t () => (float[2] q) { q = Neg(x) },
        else_branch = e () => (float[2] s) { s = SIN(x) }> }"""
    assert alike(both, one.replace("SIN", "Sin"))
    assert not alike(both, one.replace("SIN", "Cos"))


def proved(old, new):
    before, after = (ir.from_onnx_text(HEAD_ALIKE + text) for text in (old, new))
    region = changed_region(before, after)
    required = find_obligations(region, before, after, ())
    return {one.old for one in find_proved(region, before, after, required)}


DOUBLE = """(float[2] x) => (float[2] y, float[2] z) {
    a = Exp(x) b = Neg(a) y = Abs(b) c = Exp(x) d = Neg(c) z = Sin(d) }"""


def test_a_region_is_proved_through_the_unchanged_nodes_around_it():
    merged = DOUBLE.replace("c = Exp(x) d = Neg(c) z = Sin(d)", "z = Sin(b)")
    assert proved(DOUBLE, merged) == {"z"}
    assert proved(DOUBLE, merged.replace("Sin(b)", "Sin(a)")) == set()
    assert proved(DOUBLE, merged.replace("Sin(b)", "Cos(b)")) == set()


def test_nodes_around_a_region_are_added_in_the_order_in_which_they_are_read():
    model = ir.from_onnx_text(
        '<ir_version: 10, opset_import: ["" : 21]> g (float[2] x) => (float[2] y) {'
        + " ".join(f"v{n} = Neg(x)" for n in range(100))
        + f" y = Sum({', '.join(f'v{n}' for n in range(100))}) }}"
    )
    *around, last = model.graph
    side = _Changed(model, [last], ["y"])
    assert side.grow({value.name for value in last.inputs})  # more than are looked at
    count = len(side._nodes) - 1
    assert 0 < count < len(around)
    assert side._nodes - {last} == set(around[:count])


def test_a_duplicate_is_proved_where_both_are_read():
    old = """(float[2] x) => (float[2] y) {
        a = Exp(x) b = Neg(a) c = Exp(x) d = Neg(c) y = Sub(b, d) }"""
    assert proved(old, old.replace("Sub(b, d)", "Sub(b, b)")) == {"y"}
    assert proved(old, old.replace("Sub(b, d)", "Sub(b, a)")) == set()


def test_two_draws_are_not_one_where_only_their_readers_changed():
    old = """(float[2] x) => (float[2] y) {
        a = RandomNormalLike(x) b = RandomNormalLike(x)
        c = Neg(a) d = Neg(b) y = Sub(c, d) }"""
    assert proved(old, old.replace("Neg(b)", "Neg(a)")) == set()
    assert proved(old, old.replace("d = Neg(b)", "e = Neg(b) d = Identity(e)")) == {"y"}


def test_a_duplicate_of_many_nodes_is_proved():
    kept, twin = (
        " ".join(f"{name}{n + 1} = {('Exp', 'Neg')[n % 2]}({name}{n})" for n in range(9))
        for name in "ab"
    )
    old = f"""(float[2] x) => (float[2] y) {{
        a0 = Exp(x) b0 = Exp(x) {kept} {twin} y = Sub(a9, b9) }}"""
    assert proved(old, old.replace("Sub(a9, b9)", "Sub(a9, a9)")) == {"y"}
    assert proved(old, old.replace("Sub(a9, b9)", "Sub(a9, a8)")) == set()


@each_of("result, expected", ("Exp", {"y"}), ("Neg", set()))
def test_an_if_with_a_constant_condition_is_the_branch_that_it_takes(result, expected):
    old = """(float[2] x) => (float[2] y) <bool c = {1}> { y = If(c) <
        then_branch = t () => (float[2] q) { q = Exp(x) },
        else_branch = e () => (float[2] s) { s = Neg(x) }> }"""
    assert proved(old, f"(float[2] x) => (float[2] y) {{ y = {result}(x) }}") == expected
    # A branch that is never taken is held to its promise while it is there.
    assert proved(old, old.replace("s = Neg(x)", "s = Sin(x)")) == set()


def test_a_default_of_an_input_is_compared():
    old, new = (ir.from_onnx_text(HEAD_ALIKE + BASE) for _ in range(2))
    for model, number in ((old, 1.0), (new, 2.0)):
        model.graph.inputs[0].const_value = ir.tensor([[number] * 4], name="x")
    assert not compute_alike(old, new)
