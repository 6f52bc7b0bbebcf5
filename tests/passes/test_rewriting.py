"""Rules as values, and as lists: both ways of giving several rewrites."""

from dataclasses import replace

import onnx_ir as ir
import pytest
from click.testing import CliRunner
from onnxscript.rewriter import MatchResult

from onnx_passes.cli.main import program
from onnx_passes.passes.base import (
    Annotation,
    RewriteRulePass,
    RewriteRuleSetPass,
    Rule,
    Transformation,
)
from onnx_passes.passes.registry import lookup
from onnx_passes.testing import parse

MODEL = """(float[2] x, float[2] a) => (float[2] y, float[2] z)
{ t = Neg(x) y = Neg(t) u = Relu(a) z = Relu(u) }"""


def double_neg(op, x):
    return op.Neg(op.Neg(x))


def double_relu(op, x):
    return op.Relu(op.Relu(x))


def same(op, x):
    return op.Identity(x)


def relu(op, x):
    return op.Relu(x)


def never(context, x):
    return MatchResult().fail("the user says no", x)


class AsValues(Transformation, RewriteRuleSetPass):
    """Two rules, as values."""

    def rules(self):
        yield Rule(double_neg, same, name="double-neg")
        yield Rule(double_relu, relu, never)


class AsLists(Transformation, RewriteRuleSetPass):
    """The same, as lists."""

    def pattern(self):
        return [double_neg, double_relu]

    def rewrite(self):
        return [same, relu]

    def check(self):
        return [lambda context, x: True, never]


def operators(pass_):
    model = parse(MODEL)
    pass_(model)
    return [node.op_type for node in model.graph]


def test_rules_as_values_do_what_rules_as_lists_do():
    assert operators(AsValues()) == operators(AsLists()) == ["Identity", "Relu", "Relu"]


def test_a_rule_is_called_by_its_name_or_its_number():
    assert [rule.name for rule in AsValues().rules()] == [
        "as-values[double-neg]",
        "as-values[1]",
    ]
    assert [rule.name for rule in AsLists().rules()] == ["as-lists[0]", "as-lists[1]"]


def test_rules_may_be_those_of_a_base_class_and_more():
    class More(AsValues):
        def rules(self):
            yield from super().rules()
            yield Rule(double_relu, relu, name="sure")

    assert next(rule.name for rule in More().rules()) == "more[double-neg]"
    assert operators(More()) == ["Identity", "Relu"]


def test_values_commute_as_lists_do():
    class Commuting(Transformation, RewriteRuleSetPass):
        commute = True

        def rules(self):
            yield Rule(lambda op, x, y: op.Add(x, op.Neg(y)), lambda op, x, y: op.Sub(x, y))

    model = parse("(float[2] x, float[2] a) => (float[2] y) { t = Neg(a) y = Add(t, x) }")
    Commuting()(model)
    assert [node.op_type for node in model.graph] == ["Sub"]


def test_one_rule_keeps_the_name_of_the_pass():
    class One(Transformation, RewriteRulePass):
        def pattern(self, op, x):
            return double_neg(op, x)

        def rewrite(self, op, x):
            return same(op, x)

    assert [rule.name for rule in One().rules()] == ["one"]


def test_a_pass_without_rules_says_so():
    class Nothing(Transformation, RewriteRuleSetPass):
        """Gives no rule."""

    with pytest.raises(Exception, match="Nothing defines neither rules nor pattern"):
        Nothing()(parse(MODEL))


def test_needs_and_requires_mean_the_same():
    class Newer(Annotation):
        needs = ("shape-inference",)

        def call(self, model):
            return ir.passes.PassResult(model, modified=False)

    class Older(Newer):
        requires = "topological-sort"

    class Option(Newer):
        needs: int = 3

    assert Newer.required_passes == ("shape-inference",)
    assert Older.required_passes == ("topological-sort",)
    assert Option.required_passes == ("shape-inference",)
    assert Option(needs=4).needs == 4


def test_the_command_line_runs_them_and_says_why_not(tmp_path, monkeypatch):
    (tmp_path / "rules_as_values.py").write_text(
        "from onnx_passes import passes\n"
        "from onnx_passes.passes.base import RewriteRuleSetPass, Rule, Transformation\n"
        "from onnxscript.rewriter import MatchResult\n"
        "@passes.verify.equality\n"
        "@passes.register()\n"
        "class ByValues(Transformation, RewriteRuleSetPass):\n"
        '    """Remove pairs."""\n'
        "    needs = ('shape-inference',)\n"
        "    def rules(self):\n"
        "        yield Rule(lambda op, x: op.Neg(op.Neg(x)), lambda op, x: op.Identity(x),\n"
        "                   name='neg')\n"
        "        yield Rule(lambda op, x: op.Relu(op.Relu(x)), lambda op, x: op.Relu(x),\n"
        "                   lambda context, x: MatchResult().fail('it is Monday'),\n"
        "                   name='relu')\n"
    )
    (tmp_path / "p.yaml").write_text("imports: [rules_as_values]\npasses: [by-values]\n")
    ir.save(parse(MODEL), tmp_path / "m.onnx")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    words = ["-c", "p.yaml", "m.onnx", "-o", "o.onnx", "--why-not", "by-values[relu]@z"]
    found = CliRunner().invoke(program, words)
    assert found.exit_code == 0, found.output
    assert "1 rewrite by 1 rule" in found.stderr
    assert "why not: by-values[relu]" in found.stderr
    assert "it is Monday" in found.stderr
    kinds = [node.op_type for node in ir.load(tmp_path / "o.onnx").graph]
    assert sorted(kinds) == ["Identity", "Relu", "Relu"]


def test_rules_of_the_library_are_built_once_in_a_run_and_bound_to_its_context():
    (cls,) = lookup("eliminate-double-transpose")
    first, second, elsewhere = cls(), cls(), cls()
    second.context = first.context
    assert first.patterns() is first.patterns() is second.patterns()
    assert elsewhere.patterns() is not first.patterns()
    assert replace(first.context).rules == {}  # no copy of a context has them


def test_rules_of_a_users_pass_are_built_each_time():
    class Mine(Transformation, RewriteRulePass):
        def pattern(self, op, x):
            return double_neg(op, x)

        def rewrite(self, op, x):
            return same(op, x)

    mine = Mine()
    assert mine.patterns() is not mine.patterns()
