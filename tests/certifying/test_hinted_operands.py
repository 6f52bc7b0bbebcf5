from functools import cache
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
from onnxscript.rewriter import RewriteRule

from onnx_passes import passes
from onnx_passes.certifying import template_models
from onnx_passes.certifying.coverage import plans_of
from onnx_passes.certifying.operand_choice import Chooser, Guide, RecordedGenerator, hint_of
from onnx_passes.certifying.rewrite_rule import rules_of
from onnx_passes.certifying.rule_fuzzing import fuzz_rule
from onnx_passes.certifying.template_models import TYPES
from onnx_passes.passes import registry
from onnx_passes.passes.base import RewriteRuleSetPass, Rule, Transformation
from onnx_passes.passes.hints import Hint, Spec, data, filled
from onnx_passes.passes.registry import all_passes, collect


def _guide(hint, seed=0):
    for k in range(100):
        chooser = Chooser(
            RecordedGenerator(np.random.default_rng(seed + k)), ir.DataType.FLOAT, [1.0]
        )
        guide = Guide(hint, chooser)
        if guide.spec("x") is not None:
            return guide
    raise AssertionError("one hint in a dozen is left out, not all")


def test_contents_are_what_the_hint_says():
    guide = _guide(Hint({"x": filled("3 4", 0.5)}))
    for spec, expected in (
        (Spec("2 3", fill=(0.5,)), np.full((2, 3), 0.5)),
        (Spec("2 3", along=1), [[0, 1, 2], [0, 1, 2]]),
    ):
        array = guide.content(spec, guide.operand(spec))
        assert np.array_equal(array, expected)
    spec = Spec("2 6", doubled=True)
    array = guide.content(spec, guide.operand(spec))
    assert np.array_equal(array[:, :3], array[:, 3:])


HINTED = [cls for cls in all_passes() if getattr(cls, "hints", None)]
HINTS = {f"{cls.name}[{key}]": hint for cls in HINTED for key, hint in cls.hints.items()}


@cache
def _hinted_rules():
    """Return the rules of all passes that have hints, each with its own."""
    return [(rule, hint_of(rule.name)) for cls in HINTED for rule in rules_of(cls)]


@pytest.mark.parametrize("cls", HINTED, ids=lambda cls: cls.name)
def test_each_hint_is_of_a_rule_that_has_this_name(cls):
    own = [str(rule.name).removesuffix("]").partition("[")[2] for rule in rules_of(cls)]
    named = set(cls.hints) - {"*"}
    assert named <= {name for name in own if not name.isdecimal()}
    assert "*" not in cls.hints or set(own) - named, "each rule has a hint of its own"


@pytest.mark.parametrize("name", sorted(HINTS))
def test_a_hint_names_variables_that_a_rule_has(name):
    """A hint for a variable that was renamed would do nothing, without a sound."""
    hint = HINTS[name]
    # Rules that share a hint need not have all of its operands each.
    rules = [rule for rule, found in _hinted_rules() if found == hint]
    assert rules
    known = set()
    for rule in rules:
        values = [v for node in rule._target_pattern for v in (*node.inputs, *node.outputs)]
        while values:
            value = values.pop()
            if value is None:
                continue
            known.add(value.name)
            values += getattr(value, "_values", None) or []
    operands = [pair for h in (hint, *hint.cases) for pair in h.operands.items()]
    computed = {name for _, specs in operands for s in specs for name in s.of}
    asked = {key.partition(".")[0] for key, _ in operands}
    operators = {node.op_type for rule in rules for node in rule._target_pattern}
    assert asked - computed - operators <= known


def test_the_hints_of_the_docs_are_for_rules_by_name_in_all_orders(monkeypatch):
    monkeypatch.setattr(registry, "_passes", dict(registry._passes))
    page = (Path(__file__).parents[2] / "docs" / "certify.md").read_text()
    example = {}
    exec(page.partition("```python\n")[2].partition("```")[0], example)

    @passes.register()
    class OfMine(Transformation, RewriteRuleSetPass):
        commute = True
        hints = example["hints"]

        def rules(self):
            yield Rule(lambda op, x: op.Mul(x, 1), lambda op, x: x)
            yield Rule(lambda op, x, w: op.Mul(x, w), lambda op, x, w: x, name="product")

    found = [(rule.name, hint_of(rule.name)) for rule in OfMine().rules()]
    assert found == [
        *[("of-mine[0]", OfMine.hints["*"])] * 2,
        *[("of-mine[product]", OfMine.hints["product"])] * 2,
    ]


@pytest.fixture
def few_plans(monkeypatch):
    """Enumerate one in eight ranks, types and opsets: what fires by a hint is drawn."""
    monkeypatch.setattr(template_models, "plans_of", lambda *given: plans_of(*given)[::8])


@pytest.mark.usefixtures("few_plans")
@pytest.mark.parametrize(
    "name", ["fuse-attention", "fuse-rotary-embedding", "fuse-group-normalization"]
)
def test_fusions_of_many_nodes_fire(name):
    # Random shapes met none of their guards: their certificates said "never fired".
    (cls,) = collect([name])
    tested = fuzz_rule(rules_of(cls)[0], seconds=600, models=2, finite=True)
    assert tested.models == 2 + tested.planned
    assert tested.fault is None


OF_FORMS = 2000
"""Attempts that forms of what authors forget add."""

_NEVER_FIRED = [
    *(("eliminate-noop-arithmetic", index) for index in (12, 17, 18, 19)),
    *(("fuse-layer-normalization", index) for index in (2, 7)),
    *(("fuse-rms-normalization", index) for index in (1, 2, 5)),
    ("eliminate-noop-clip", 1),
    ("eliminate-noop-expand", 1),
    ("fuse-instance-normalization", 5),
    ("fuse-leaky-relu", 1),
    ("fuse-shape-slice", 3),
]


@pytest.mark.usefixtures("few_plans")
@pytest.mark.parametrize(("name", "index"), _NEVER_FIRED)
def test_rules_whose_certificates_said_never_fired_do(name, index):
    (cls,) = collect([name])
    rule = rules_of(cls)[index]
    tested = fuzz_rule(rule, seconds=600, models=2, finite=True)
    assert tested.models == 2 + tested.planned
    assert tested.fault is None
    assert tested.attempts < OF_FORMS + sum(plan.draws for plan in plans_of(rule, TYPES))


def test_an_infinity_is_the_end_of_an_integer_type_and_minus_one_all_bits():
    guide = _guide(Hint({"x": data("1")}))
    for dtype, number, expected in (
        (ir.DataType.UINT8, -1.0, 255),
        (ir.DataType.INT8, -1.0, -1),
        (ir.DataType.INT8, -np.inf, -128),
        (ir.DataType.UINT8, np.inf, 255),
        (ir.DataType.FLOAT, np.inf, np.inf),
    ):
        spec = Spec("2", fill=(number,), dtype=dtype)
        array = guide.content(spec, guide.operand(spec))
        assert array.dtype == dtype.numpy()
        assert array.tolist() == [expected] * 2


def test_a_rule_that_fires_seldom_is_varied_where_it_did():
    def check(context, x, y, **_):
        shapes = [None if v.shape is None else tuple(v.shape) for v in (x, y)]
        return shapes == [(3, 4), (3, 4)] and x.dtype == ir.DataType.INT32

    rule = RewriteRule(
        lambda op, x, y: op.Where(op.Equal(x, y), x, y), lambda op, x, y: y, check
    )
    tested = fuzz_rule(rule, seconds=600, models=25)
    assert tested.models == 25 + tested.planned
    assert tested.attempts < 4000 + OF_FORMS
