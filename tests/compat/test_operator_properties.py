"""Passes derived from the templates of the seed system run."""

from onnx_passes import passes, testing
from onnx_passes.compat import operator_properties
from tests.tables import each_row

HEAD = "(bool[2,3] x, bool[2,3] u, bool[2,3] v) => (bool[2,3] y) <bool f = {0}, bool t = {1}> "


def law(templates, **members):
    """Return a pass of templates for operators, as a client of the seed system writes it."""
    bases = tuple(getattr(operator_properties, f"_{name}") for name in templates.split())
    names = {f"__{name}__": member for name, member in members.items()}
    return passes.verify.equality(type("Law", bases, names))


AND = lambda _, op, x, y: op.And(x, y)  # noqa: E731
OR = lambda _, op, x, y: op.Or(x, y)  # noqa: E731
XOR = lambda _, op, x, y: op.Xor(x, y)  # noqa: E731


@each_row("""cls | body | kinds
- =law("Associative Commutative", OP=AND) | a = And(x, t) y = And(a, f) | And And
- =law("Distributive", MUL=AND, ADD=OR) | a = And(x, u) b = And(x, v) y = Or(a, b) | Or And
- =law("DistributiveRhs", MUL=AND, ADD=XOR) | a = And(u, x) b = And(v, x) y = Xor(a, b) | Xor
  And
- =law("Involution", OP=lambda _, op, x: op.Not(x)) | a = Not(x) y = Not(a) | Identity
- =law("Idempotence", OP=AND) | y = And(x, x) | Identity
- =law("Absorption", OP1=AND, OP2=OR) | a = And(x, u) y = Or(x, a) | Identity
- =law("Annihilator", OP=AND, ANNIHILATOR=False) | y = And(x, f) | Constant Expand
""")
def test_fires(cls, body, kinds):
    model = testing.parse(HEAD + "{ " + body + " }")
    before = testing.Snapshot(model)
    assert cls()(model).modified
    testing.assert_verified(cls(), before, model)
    assert [node.op_type for node in model.graph] == kinds.split()


def test_a_comparison_is_turned():
    model = testing.parse("(float[N] x, float[N] u) => (bool[N] y) { y = Less(x, u) }")
    turned = law(
        "Converse",
        OP=lambda _, op, x, y: op.Less(x, y),
        CONVERSE=lambda _, op, x, y: op.Greater(x, y),
    )
    assert turned()(model).modified
    assert [node.op_type for node in model.graph] == ["Greater"]
