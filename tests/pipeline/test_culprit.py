import json
import math
import re
from typing import ClassVar

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from benchmarks.models import transformer
from onnx_passes import passes
from onnx_passes.configs.pipeline_files import default_config
from onnx_passes.passes.base import RewriteRulePass, Transformation
from onnx_passes.pipeline import compiling_engines
from onnx_passes.pipeline.change_parts import Part, describe_finding
from onnx_passes.pipeline.pass_execution import Attempts
from onnx_passes.pipeline.run import run_pipeline
from onnx_passes.runtime.engine_base import Finding, Level
from onnx_passes.runtime.tensorrt import engine as tensorrt
from onnx_passes.testing import parse
from tests.tables import each_of, edit_pass, rule_pass

HEAD = '<ir_version: 10, opset_import: ["": 21]> g '


SCALED = "Mul(w, Constant(value_float=self.factor))"
CulpritSum = rule_pass(
    "CulpritSum",
    f"Add(x, w) => Sum({SCALED} if w.name in self.wrong.split() else w, x) "
    "when w.const_value is not None",
    passes.verify.tolerance(),
    wrong="",
    factor=1.01,
)
SCOPE = "Add(x, w) => Identity(x) if w.name.startswith('lost') else Sum(w, x)"
rule_pass("CulpritScope", SCOPE)
CulpritForTheOutputs = rule_pass(
    "CulpritForTheOutputs", SCOPE, passes.verify.equality(at="outputs")
)
rule_pass(
    "CulpritInside",
    "Add(x, w) => Neg(Sub(Neg(x), Abs(w) if w.name.startswith('lost') else w))",
    passes.verify.equality(at="outputs"),
)


def chain(weights, end="y = Neg(v{end})"):
    given = ", ".join(f"float[2] {name} = {{{i + 1}, 2}}" for i, name in enumerate(weights))
    body = " ".join(f"v{i + 1} = Add(v{i}, {name})" for i, name in enumerate(weights))
    text = f"""{HEAD} (float[2] x) => (float[2] y) <{given}> {{ v0 = Neg(x) {body}
        {end.format(end=len(weights))} }}"""
    return ir.from_proto(onnx.parser.parse_model(text))


def run(model, step, *overrides):
    given = ["reproducers=false", "on_failure=rollback", *overrides]
    (report,) = run_pipeline(model, default_config(given, [step])).report.passes
    return report


@pytest.fixture
def counted(monkeypatch):
    """Count how often the pass is run again."""
    runs = []
    apply = Attempts.apply
    monkeypatch.setattr(
        Attempts, "apply", lambda self, **given: runs.append(given) or apply(self, **given)
    )
    return runs


def biases(model):
    names = {v.name for v in model.graph.initializers.values()}
    return [
        node.inputs[1].name
        for node in model.graph
        if node.op_type == "Add" and node.inputs[1].name in names
    ]


@each_of("place", 0, 2, -1)
def test_a_bias_a_hundredth_off_in_a_transformer_is_named_with_no_search(counted, place):
    model = ir.from_proto(transformer(layers=2))
    name = biases(model)[place]
    report = run(model, f"culprit-sum{{wrong={name}}}")
    (blame,) = report.blame
    assert len(report.rewrites) >= 5
    assert name in " ".join(blame.nodes)
    assert blame.how == "by its own error"
    assert blame.value.mismatched > 0
    assert report.culprits == [blame.number]
    assert len(counted) == 1  # without it


def test_disjoint_culprits_are_all_named_the_worst_first():
    names = [f"w{i}" for i in range(12)]
    report = run(chain(names), "culprit-sum{wrong='w2 w5 w11'}")
    assert sorted(report.culprits) == [3, 6, 12]
    shares = [blame.value.share for blame in report.blame]
    assert shares == sorted(shares, reverse=True)


def test_the_value_that_differs_has_one_name_with_and_without_the_culprit():
    model = chain(["lost", "w"])
    model.graph.initializers["lost"].const_value = ir.tensor(np.float32([-1, -2]))
    (blame,) = run(model, "culprit-inside").blame
    assert (blame.how, blame.value.output) == ("by bisection", "v1")  # and no new Sub


def test_weights_keep_their_names_when_parts_are_run_beside_each_other():
    model = chain([f"w{i}" for i in range(4)])
    names = {n: v.const_value.name for n, v in model.graph.initializers.items()}
    assert run(model, "culprit-sum{wrong=w2}").culprits == [3]
    assert {n: v.const_value.name for n, v in model.graph.initializers.items()} == names


LOOP = (
    HEAD
    + """(float[2] x) => (float[2] y) <float[2] w = {1, 2}, float[2] lost1 = {3, 4},
    int64 count = {3}, bool on = {1}> {
    a = Add(x, w)
    last = Loop (count, on, a) <body = inside (int64 i, bool c, float[2] s)
        => (bool go, float[2] t) { go = Identity(c) n = Neg(s) t = Add(n, lost1) }>
    y = Add(last, w) }"""
)


def test_a_rewrite_in_a_loop_is_named_beside_others_outside_of_it():
    (blame,) = run(ir.from_onnx_text(LOOP), "culprit-scope").blame
    assert blame.how == "by its own error"
    assert blame.nodes == ["t = Add(n, lost1)"]


def test_the_rest_is_kept_and_only_these_are_undone():
    names = [f"w{i}" for i in range(12)]
    model = chain(names)
    given = ["reproducers=false", "on_failure=rollback", "granularity=application"]
    done = run_pipeline(model, default_config(given, ["culprit-sum{wrong='w2 w5 w11'}"]))
    kinds = [node.op_type for node in done.model.graph if node.op_type != "Neg"]
    assert [i for i, kind in enumerate(kinds) if kind == "Add"] == [2, 5, 11]
    assert done.report.passes[0].verdict == "passed"


def function(inputs, weights, result, body):
    """Build a call of a function that reads the input and some weights."""
    names = re.findall(r"\] (\w+) =", weights)
    text = (
        HEAD.replace('"": 21', '"": 21, "f": 1')
        + f"(float[2] x) => (float[2] y) <{weights}> {{ y = f.foo({', '.join(names)}, x) }} "
        f'<domain: "f", opset_import: ["": 21]> foo ({", ".join(names)}, {inputs}) '
        f"=> ({result}) {{ {body} }}"
    )
    return ir.from_proto(onnx.parser.parse_model(text))


@each_of("step", "culprit-scope", "culprit-for-the-outputs")
def test_in_a_function_it_is_found_with_no_search_or_by_bisection(counted, step):
    names = [f"w{i}" for i in range(16)]
    names[9] = "lost"
    given = ", ".join(f"float[2] {n} = {{{i + 1}, 2}}" for i, n in enumerate(names))
    body = " ".join(f"v{i + 1} = Add(v{i}, {n})" for i, n in enumerate(names))
    report = run(function("v0", given, "v16", body), step)
    assert report.culprits == [10]
    assert "lost" in report.blame[0].nodes[0]
    if step == "culprit-scope":
        assert report.blame[0].how == "by its own error"
        assert len(counted) == 1
        return
    assert report.blame[0].how == "by bisection"
    assert report.blame[0].value.output == "y"
    # Bisected, once alone, and once without it.
    assert len(counted) <= math.log2(16) + 1 + 1


BRANCHES = """{HEAD} (float[2] x) => (float[2] y)
    <float[2] w = {1, 2}, float[2] lost1 = {3, 4}, bool c = {1}> {
    t = Neg(x)
    y = If (c) <
        then_branch = a () => (float[2] p) {
            n = Neg(t)
            s = If (c) <
                then_branch = b () => (float[2] q) {
                    u = Neg(n) v = Add(u, LOST) r = Add(v, t) q = Exp(r) },
                else_branch = d () => (float[2] z) { z = Neg(n) } >
            p = Add(s, n) },
        else_branch = e () => (float[2] m) { u = Exp(t) k = Add(u, OTHER) m = Neg(k) } > }"""


def test_in_a_branch_it_is_named_with_no_search_by_its_inner_values(counted):
    text = BRANCHES.replace("{HEAD}", HEAD).replace("LOST", "lost1").replace("OTHER", "w")
    (blame,) = run(ir.from_proto(onnx.parser.parse_model(text)), "culprit-scope").blame
    assert blame.how == "by its own error"
    assert blame.nodes == ["v = Add(u, lost1)"]
    assert (blame.value.output, blame.value.mismatched) == ("v", 2)
    assert len(counted) == 1


def test_a_branch_that_is_not_taken_is_run_and_its_fault_named():
    text = BRANCHES.replace("{HEAD}", HEAD).replace("LOST", "w").replace("OTHER", "lost1")
    report = run(ir.from_proto(onnx.parser.parse_model(text)), "culprit-scope")
    assert report.verdict == "failed"
    (blame,) = report.blame
    assert blame.nodes == ["k = Add(u, lost1)"]
    assert blame.how == "by its own error"


def test_nobody_is_accused_where_only_the_operand_of_another_node_is_lost():
    text = BRANCHES.replace("{HEAD}", HEAD).replace("LOST", "w").replace("OTHER", "w")
    report = run(ir.from_proto(onnx.parser.parse_model(text)), "culprit-scope")
    assert report.verdict == "passed"
    assert report.blame == []


PRODUCT = """p = Add(x, lost1) r = Add(x, w) q = Add(x, lost2) P = Sum(x, lost1)
    Q = Sum(x, lost2) d = Sub(p, P) e = Sub(q, Q) z = Mul(d, e)"""
WEIGHTS = "float[2] lost1 = {1, 2}, float[2] lost2 = {3, 4}, float[2] w = {5, 6}"


def test_culprits_that_only_fail_together_are_both_named():
    text = f"{HEAD} (float[2] x) => (float[2] y) <{WEIGHTS}> {{ {PRODUCT} y = Add(z, r) }}"
    report = run(ir.from_proto(onnx.parser.parse_model(text)), "culprit-scope")
    assert sorted(report.culprits) == [1, 3]
    assert {blame.how for blame in report.blame} == {"by its own error"}


def test_so_are_they_where_only_a_search_can_tell():
    model = function("x", WEIGHTS, "s", f"{PRODUCT} s = Add(z, r)")
    report = run(model, "culprit-for-the-outputs")
    assert sorted(report.culprits) == [1, 3]
    assert {blame.how for blame in report.blame} == {"by bisection, wrong together"}


@passes.verify.equality
@passes.register()
class CulpritSideEffect(Transformation, RewriteRulePass):
    """Change a weight that is not in the match."""

    def pattern(self, op, x, w):
        return op.Add(x, w)

    def rewrite(self, op, x, w):
        other = x.producer().graph.initializers["w0"]
        other.const_value = ir.tensor(np.float32([9, 9]), name="w0")
        return op.Sum(w, x)


def test_a_rule_that_changes_more_than_it_returns_accuses_none_of_its_rewrites():
    report = run(chain([f"w{i}" for i in range(6)]), "culprit-side-effect")
    assert report.culprits == []
    assert any("even without its rewrites" in note for note in report.notes)


@each_of(
    "step, named", ("culprit-sum{wrong='w2 w4'}", [3, 5]), ("culprit-for-the-outputs", [])
)
def test_a_pass_that_does_not_repeat_is_not_searched(monkeypatch, step, named):
    calls = []

    def moody(self, _, x, w):
        calls.append(w.name)
        return w.const_value is not None and len(calls) <= 8

    for cls in (CulpritSum, CulpritForTheOutputs):
        monkeypatch.setattr(cls, "check", moody)
    report = run(chain(["w0", "w1", "w2", "w3", "w4", "lost"]), step)
    assert report.culprits == named
    assert named or any("does not repeat" in note for note in report.notes)


@passes.verify.metric("max_abs_error")
@passes.register()
class CulpritCoarse(Transformation):
    """Round the weight of one layer, without a rule."""

    moved: ClassVar = ("w2", (30, 0))

    def call(self, model):
        name, numbers = self.moved
        model.graph.initializers[name].const_value = ir.tensor(np.float32(numbers), name=name)
        return ir.passes.PassResult(model, modified=True)


def test_a_failed_metric_is_traced_to_the_layer_that_loses_the_most():
    report = run(
        chain([f"w{i}" for i in range(5)]),
        "culprit-coarse",
        "verify.metrics={max_abs_error: [0, 0.5]}",
    )
    (blame,) = report.blame
    assert blame.how.startswith("the layer that loses the most: an error of ")
    assert "w2" in blame.nodes[0]
    assert blame.value.output == "v3"


@passes.verify.metric("max_abs_error")
@passes.register()
class CulpritSlight(CulpritCoarse):
    """Move the weight of another layer by little."""

    moved: ClassVar = ("w0", (1.01, 2))


def test_a_loss_that_was_accepted_is_not_blamed_for_a_far_larger_one():
    given = ["reproducers=false", "on_failure=rollback"]
    given.append("verify.metrics={max_abs_error: [0, 0.5]}")
    config = default_config(given, ["culprit-slight", "culprit-coarse"])
    kept, failed = run_pipeline(chain([f"w{i}" for i in range(5)]), config).report.passes
    assert kept.action == "kept"
    assert [blame.name for blame in failed.blame] == ["culprit-coarse"]


BLOCKS = " ".join(f"s{i} = Add(t{i}, b) t{i + 1} = Relu(s{i})" for i in range(8))
TEXT = f"""(float[n,2] a, float[2] b) => (float[n,2] y)
{{ t0 = Neg(a) {BLOCKS} y = Abs(t8) }}"""


# NVIDIA's compiler parses a suppression of such constants, and does not build it.
BOXES, SCORES = (np.ones((1, 1, n), np.float32) for n in (4, 1))
GIVEN = ", ".join(f"Constant(value=ir.tensor({name}))" for name in ("BOXES", "SCORES"))
COUNT = f"Cast(Size(NonMaxSuppression({GIVEN}, Constant(value_ints=[0]))), to=1)"
TAKEN = {
    "SumOrSequence": "SequenceAt(SequenceConstruct(Sum(x, y)), Constant(value_int=0))",
    "SumOrBoxes": f"Sum(x, y, {COUNT})",
}
for name, taken in TAKEN.items():
    text = f"{taken} if out.name in self.at.split(',') else Sum(x, y)"
    rule_pass(name, f"Add(x, y, _outputs=['out']) => {text}", at="")


@edit_pass()
def sequence_in_bulk(model):
    """Take a value through a sequence, without a rule."""
    node = model.graph[-1]
    made = ir.node("SequenceConstruct", [node.inputs[0]])
    zero = ir.node("Constant", [], {"value_int": ir.AttrInt64("value_int", 0)})
    taken = ir.node("SequenceAt", [made.outputs[0], zero.outputs[0]])
    for one, name in ((made, "q"), (zero, "z"), (taken, "r")):
        one.outputs[0].name = name
    model.graph.insert_before(node, [made, zero, taken])
    node.replace_input_with(0, taken.outputs[0])


class Compiler:
    """Takes everything but sequences, and keeps what it was asked."""

    def __init__(self, names=True):
        self.asked, self.names = [], names

    def __call__(self, engine, model, samples=()):
        self.asked.append(model)
        bad = [n for n in model.graph if n.op_type.startswith("Sequence")]
        if not bad:
            return Finding(Level.BUILT)
        if not self.names:
            return Finding(Level.PARSED, "the builder does not compile it: it gives no reason")
        reasons = (f"node {n.name or n.outputs[0].name!r} ({n.op_type}): no" for n in bad[:3])
        return Finding(Level.REJECTED, "; ".join(reasons))


@pytest.fixture
def compiler(monkeypatch):
    made = Compiler()
    monkeypatch.setattr(compiling_engines, "examine", made)
    monkeypatch.setattr(tensorrt, "installed_version", lambda _: "1.7")
    return made


def go(*steps, when="each"):
    rtx = {"tensorrt-rtx": {"when": when, "compute_capabilities": [8.9]}}
    settings = [f"engines={json.dumps([{'onnxruntime': {}}, rtx])}", "reproducers=false"]
    return run_pipeline(parse(TEXT), default_config(settings, steps)).report


def whole_models(compiler):
    return sum(any(v.name == "y" for v in model.graph.outputs) for model in compiler.asked)


@each_of("names", True, False)
@each_of("at", "s5", "s2,s6")
def test_rewrites_are_named_by_their_regions_and_tested_in_one_build(compiler, names, at):
    compiler.names = names
    (failed,) = go("sum-or-sequence{at=" + json.dumps(at) + "}").passes
    named = [r for r in failed.rewrites if r.number in failed.culprits]
    assert [r.replaced[0][0] for r in named] == at.split(",")
    level = "rejected, node '" if names else "parsed, the builder does not compile it"
    assert all(b.how.startswith(f"by its region alone: {level}") for b in failed.blame)
    assert all(any("SequenceConstruct" in node for node in b.new_nodes) for b in failed.blame)
    assert whole_models(compiler) == 3  # the original, the result, and the pass without them


def test_what_the_compiler_named_in_the_whole_model_is_built_first(compiler):
    assert len(go("sum-or-sequence{at=s5}").passes[0].culprits) == 1
    # The original and the result, the region named and what it replaced, the pass without it.
    assert len(compiler.asked) == 5


def test_a_failure_at_the_end_is_traced_to_the_rewrites_of_their_passes(compiler):
    (blame,) = go("sum-or-sequence{at=s1}", "eliminate-identity", when="end").blame
    assert (blame.step, blame.rule) == (1, "sum-or-sequence")
    assert blame.how.startswith("by its region alone: rejected, node '")


def test_a_pass_without_rules_is_named_by_building_between_passes(compiler):
    (blame,) = go("sum-or-sequence", "sequence-in-bulk", when="end").blame
    assert (blame.step, blame.name, blame.rule) == (2, "sequence-in-bulk", None)
    assert blame.how == "the first after which the model is not compiled"


def test_the_layer_is_told_by_the_compilers_own_name_beside_the_node():
    part = Part(parse(TEXT), [], {"p3.1": "boxes (NonMaxSuppression)"})
    found = Finding(Level.PARSED, "layerImpls.empty() failed. p3.1_0 has no runners")
    assert describe_finding(found, part) == (
        "parsed, layerImpls.empty() failed. boxes_0 has no runners "
        "(its layer 'boxes_0' is of node boxes (NonMaxSuppression))"
    )


@pytest.mark.tensorrt
def test_nvidias_compiler_names_the_layer_of_a_node_that_it_parses_and_does_not_build():
    (done,) = go("sum-or-boxes{at=s5}").passes
    (blame,) = done.blame
    assert [r.replaced[0][0] for r in done.rewrites if r.number in done.culprits] == ["s5"]
    assert re.search(r"its layer '\S+_0' is of node \S+ \(NonMaxSuppression\)", blame.how)
