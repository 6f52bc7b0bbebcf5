import onnx_ir as ir
import pytest

from onnx_passes.model.diff import diff

HEAD = '<ir_version: 10, opset_import: ["" : 20]> g (float[2] x, float[2] z) => (float[2] y) '
PLAIN = HEAD + (
    "<float[2] w = {1,2}> { a = Relu(x) b = Mul(a, w) c = Elu<alpha=2.0>(b) y = Add(c, z) }"
)


def model(text):
    return ir.from_onnx_text(text)


def kinds(a, b):
    return sorted(d.kind for d in diff(model(a), model(b)))


def test_renamed_models_do_not_differ():
    renamed = PLAIN.replace("a = ", "q = ").replace("(a", "(q").replace("w", "weight")
    assert kinds(PLAIN, renamed) == []


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("alpha=2.0", "alpha=3.0", ["attribute"]),
        ("{1,2}>", "{1,4}>", ["weight"]),
        ("y = Add(c, z)", "y = Add(c, x)", ["wiring"]),
        ("y = Add(c, z)", "y = Add(c, c)", ["wiring"]),
        ('"" : 20', '"" : 21', ["opset"]),
        ("float[2] z", "float[1] z", ["interface"]),
    ],
)
def test_a_change_is_told_by_kind(old, new, expected):
    assert kinds(PLAIN, PLAIN.replace(old, new)) == expected


def test_an_inserted_node_is_the_only_one_added():
    longer = PLAIN.replace("c = Elu<alpha=2.0>(b)", "n = Abs(b) c = Elu<alpha=2.0>(n)")
    found = diff(model(PLAIN), model(longer))
    assert [str(d) for d in found if d.kind == "added"] == ["+ Abs(b) -> n"]
    assert not [d for d in found if d.kind == "removed"]
    assert [d.kind for d in diff(model(longer), model(PLAIN))].count("removed") == 1


def test_norms_of_a_changed_weight_are_told():
    (found,) = diff(model(PLAIN), model(PLAIN.replace("{1,2}>", "{1,4}>")))
    assert "L2 of the change 2, relative 0.894, largest 2" in found.after


def test_differences_in_subgraphs_are_found_and_renamed_outer_values_are_not():
    text = (
        '<ir_version: 10, opset_import: ["" : 20]> g (bool p, float[2] x) => (float[2] y) '
        "{ o = Abs(x) y = If(p) "
        "<then_branch = t () => (float[2] u) { u = Elu<alpha=2.0>(o) }, "
        "else_branch = e () => (float[2] v) { v = Neg(x) }> }"
    )
    other = text.replace("2.0", "3.0").replace("o = ", "q = ").replace("(o)", "(q)")
    (found,) = diff(model(text), model(other))
    assert found.kind == "attribute"
    assert "then_branch" in found.where
