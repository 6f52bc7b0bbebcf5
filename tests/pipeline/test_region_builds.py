"""Evidence for each rewrite on an engine that executes what it compiles, a stand-in."""

import json

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.configs.pipeline_files import default_config
from onnx_passes.errors import ConfigError, EngineBuildError
from onnx_passes.pipeline import compiling_engines
from onnx_passes.pipeline.run import run_pipeline
from onnx_passes.report.json import from_json, to_json
from onnx_passes.report.summary import outcome
from onnx_passes.runtime.tensorrt import engine as tensorrt
from onnx_passes.runtime.tensorrt.engine_options import read_options
from onnx_passes.verify.evidence import LEVEL, Kind, Verdict
from tests.pipeline.sums import SumsByRule
from tests.runtime.tensorrt import fake_gpu
from tests.tables import each_of, edit_pass, rule_pass

BLOCKS = " ".join(f"s{i} = Add(t{i}, b) t{i + 1} = Tanh(s{i})" for i in range(4))
TEXT = f"""<ir_version: 8, opset_import: ["": 17]>
g (float[n,3] a, float[3] b) => (float[n,3] y)
{{ t0 = Neg(a) {BLOCKS} i = Identity(t4) y = Neg(i) }}"""
HIDDEN = f"""<ir_version: 8, opset_import: ["": 17]>
g (float[n,3] a, float[3] b) => (bool[n,3] y)
{{ t0 = Neg(a) {BLOCKS} big = Constant<value_float = 9.0>() y = Less(t4, big) }}"""
"""Its output is true whatever the sums are."""
EXAMINE = compiling_engines.RegionBuilds._examine


rule_pass("TanhsOfSums", "Tanh(Add(x, y)) => Tanh(Sum(x, y))")


@edit_pass()
def sums_in_bulk(model):
    """Write additions as sums, without a rule."""
    for node in model.graph:
        node.op_type = "Sum" if node.op_type == "Add" else node.op_type


@pytest.fixture
def built(monkeypatch, gpu):
    """Put the stand-in in place; return the models of regions that it was asked to build."""
    fake_gpu.compile_into_models(monkeypatch)
    asked, real = [], compiling_engines.examine
    for_regions(monkeypatch, lambda *words: asked.append(words[1]) or real(*words))
    return asked


def for_regions(monkeypatch, examine):
    """Let a function examine models of regions; whole models are examined as ever."""

    def within(self, parts):
        with monkeypatch.context() as patch:
            patch.setattr(compiling_engines, "examine", examine)
            return EXAMINE(self, parts)

    monkeypatch.setattr(compiling_engines.RegionBuilds, "_examine", within)


def go(*steps, text=TEXT, when="each", only=True, overrides=(), **options):
    rtx = {"tensorrt-rtx": {"when": when, "isolate": False, **options}}
    other = {"onnxruntime": {"when": "end"}} if only else {"onnxruntime": {}}
    settings = [f"engines={json.dumps([other, rtx])}", *overrides, "reproducers=false"]
    return run_pipeline(ir.from_onnx_text(text), default_config(settings, steps)).report


def regions(checks):
    return [check for check in checks if check.kind == LEVEL and check.scope == "region"]


def test_each_rewrite_is_executed_there_and_all_of_a_pass_take_two_builds(built):
    report = go(SumsByRule.name)
    (done,) = report.passes
    assert [(one.kind, one.numbers) for one in done.evidence] == [
        (Kind.EXECUTED, (number,)) for number in (1, 2, 3, 4)
    ]
    assert [len(model.graph.outputs) for model in built] == [4, 4]
    (check,) = regions(done.checks)
    assert check.engine.startswith("tensorrt-rtx")
    assert (check.verdict, check.level) == (Verdict.PASSED, "executed")
    assert check.reason == "sums-by-rule: 4 of 4 rewrites executed by region, in 2 builds"
    assert [output.output for output in check.outputs] == ["s0", "s1", "s2", "s3"]
    assert (done.verdict, report.exit_code) == (Verdict.PASSED, 0)
    assert outcome(report).head == "VERIFIED"
    assert from_json(to_json(report)) == report


def test_a_fault_that_the_outputs_do_not_show_is_found_and_named(built):
    wrong = "sums-by-rule{at=s2}"
    (done,) = go(wrong, text=HIDDEN).passes
    (check,) = regions(done.checks)
    assert (check.verdict, check.level) == (Verdict.FAILED, "executed")
    assert check.reason.startswith(f"{wrong.partition('{')[0]}: rewrite 3 (sums-by-rule): s2 ")
    (blame,) = done.blame
    assert blame.how.startswith("by its own error on that engine, in its layers '")
    assert [r.replaced[0][0] for r in done.rewrites if r.number == blame.number] == ["s2"]


def test_a_rewrite_that_is_wrong_on_that_engine_alone_is_found_and_named(built, monkeypatch):
    real = tensorrt.build

    def build(package, options, model, log):
        for node in model.graph:  # the engine computes one operator otherwise
            if node.op_type == "Sum":
                node.op_type = "Sub"
        return real(package, options, model, log)

    monkeypatch.setattr(tensorrt, "build", build)
    (done,) = go("sums-by-rule", text=HIDDEN, only=False).passes
    failed = [check for check in done.checks if check.verdict is Verdict.FAILED]
    assert [check.engine for check in failed] == [regions(done.checks)[0].engine]
    assert all(b.how.startswith("by its own error on that engine") for b in done.blame)


def test_a_change_without_a_rule_is_executed_by_connected_parts(built):
    (done,) = go("sums-in-bulk").passes
    assert {one.kind for one in done.evidence} == {Kind.EXECUTED}
    assert regions(done.checks)[0].verdict is Verdict.PASSED


@each_of("named, builds", (True, 4), (False, 6))
def test_a_part_that_the_engine_refuses_is_found_others_run(built, monkeypatch, named, builds):
    real = tensorrt.build

    def build(package, options, model, log):
        for node in model.graph if model.graph.name == "regions" else ():
            if node.op_type == "Mul":
                said = f"node {node.name!r} (Mul): no kernel" if named else "no reason"
                raise EngineBuildError(said)
        return real(package, options, model, log)

    monkeypatch.setattr(tensorrt, "build", build)
    report = go("sums-by-rule{at=s3,factor=1.0}")
    (check,) = regions(report.passes[0].checks)
    assert (check.verdict, check.level, len(built)) == (Verdict.PASSED, "executed", builds)
    said = "node 'Mul' (Mul)" if named else "no reason"
    assert check.reason.startswith(
        f"sums-by-rule: 3 of 4 rewrites executed by region, in {builds} builds; not run: "
        f"sums-by-rule: what is in its place is parsed, {said}"
    )
    kinds = [one.kind for one in report.passes[0].evidence]
    assert kinds == [Kind.EXECUTED] * 3 + [Kind.OUTPUTS_ONLY]


def test_one_part_that_is_not_taken_stands_for_all_of_its_operators(built, monkeypatch):
    real = tensorrt.build

    def build(package, options, model, log):
        sums = [node for node in model.graph if node.op_type == "Sum"]
        if model.graph.name == "regions" and sums:
            raise EngineBuildError("no kernel")
        return real(package, options, model, log)

    monkeypatch.setattr(tensorrt, "build", build)
    (done,) = go("sums-by-rule").passes
    (check,) = regions(done.checks)
    assert (check.verdict, check.level) == (Verdict.NOT_VERIFIED, "built")
    assert len(built) == 1 + 3  # all of them, two of them, one of them
    assert "a part of the same operators is parsed, no kernel" in check.reason
    assert {one.kind for one in done.evidence} == {Kind.OUTPUTS_ONLY}


@each_of(
    "given, why, builds",
    ({"region_builds": 1}, "the budget of 1 build of regions is used up", 0),
    ({"region_share": 1e-9}, "the budget of 1e-09 times the time of whole models", 1),
)
def test_what_the_budget_does_not_reach_is_reported_as_not_run(built, given, why, builds):
    report = go("sums-by-rule", **given)
    assert len(built) == builds
    (check,) = regions(report.passes[0].checks)
    assert (check.verdict, check.level) == (Verdict.NOT_VERIFIED, "built")
    assert why in check.reason
    assert {one.kind for one in report.passes[0].evidence} == {Kind.OUTPUTS_ONLY}


def test_without_a_region_a_change_that_outputs_cannot_see_is_blind(built):
    (done,) = go("sums-by-rule", text=HIDDEN, region_builds=1).passes
    assert {one.kind for one in done.evidence} == {Kind.BLIND}
    assert done.verdict is Verdict.NOT_VERIFIED
    told = "the outputs agree, and cannot see the change (the budget of 1 build of regions "
    assert all(one.reason.startswith(told) for one in done.evidence)


def test_no_budget_means_no_builds_and_wrong_ones_are_refused(built):
    report = go("sums-by-rule", region_builds=0)
    assert (built, regions(report.passes[0].checks)) == ([], [])
    for wrong in ({"region_builds": -1}, {"region_share": 0}, {"region_share": "much"}):
        with pytest.raises(ConfigError, match=next(iter(wrong))):
            read_options("tensorrt-rtx", wrong)


@each_of("when", "checkpoint", "end")
def test_engines_that_are_asked_later_run_what_each_pass_changed(built, when):
    checkpoint = {"checkpoint": {"name": "halfway"}}
    steps = ("sums-by-rule", "eliminate-identity")
    rtx = {"tensorrt-rtx": {"when": when, "isolate": False}}
    config = default_config(
        [
            f"engines={json.dumps([{'onnxruntime': {}}, rtx])}",
            f"passes={json.dumps([steps[0], checkpoint, steps[1]])}",
        ]
    )
    report = run_pipeline(ir.from_onnx_text(TEXT), config).report
    assert not regions(report.passes[0].checks)
    halfway, final = regions(report.passes[1].checks), regions(report.final)
    told = [check.reason for check in (*halfway, *final)]
    assert told[0] == "sums-by-rule: 4 of 4 rewrites executed by region, in 2 builds"
    assert len(halfway) == (1 if when == "checkpoint" else 0)
    assert len(told) == 1  # removing an Identity is proved by structure
    assert report.exit_code == 0


def test_a_fault_found_at_the_end_is_traced_to_its_rewrite(built):
    report = go("sums-by-rule{at=s1}", "eliminate-identity", text=HIDDEN, when="end")
    (failed,) = [c for c in regions(report.final) if c.verdict is Verdict.FAILED]
    assert failed.reason.startswith("sums-by-rule: rewrite 2 (sums-by-rule): s1 ")
    (blame,) = report.blame
    assert (blame.step, blame.number, blame.rule) == (1, 2, "sums-by-rule")
    assert blame.how.startswith("by its own error on that engine, in its layers '")
    assert blame.value.output == "s1"


def test_values_beyond_the_memory_limit_are_not_kept_and_told(built):
    report = go("sums-by-rule", when="end", overrides=["verify.memory_limit=1"])
    (check,) = regions(report.final)
    assert (check.verdict, built) == (Verdict.NOT_VERIFIED, [])
    assert "the values at its borders exceed verify.memory_limit" in check.reason


def test_what_was_run_is_not_built_again_for_the_pass_without_the_culprit(built):
    report = go(
        "sums-by-rule{at=s2}",
        text=HIDDEN,
        overrides=["on_failure=rollback", "granularity=application"],
    )
    (done,) = report.passes
    assert done.verdict is Verdict.PASSED
    assert [r.replaced[0][0] for r in done.rewrites] == ["s0", "s1", "s3"]
    assert len(built) == 2


def test_rounding_passes_and_what_rounding_cannot_do_fails(built, monkeypatch):
    real = compiling_engines.examine

    def shaken(by):
        def examine(engine, model, samples=()):
            found = real(engine, model, samples)
            if not any(node.op_type == "Sum" for node in model.graph):
                return found
            rows = tuple({n: by(v) for n, v in row.items()} for row in found.outputs)
            return compiling_engines.Finding(found.level, outputs=rows)

        return examine

    for_regions(monkeypatch, shaken(lambda v: np.nextafter(v, v / 2)))
    (done,) = go("tanhs-of-sums").passes
    (check,) = regions(done.checks)
    assert check.verdict is Verdict.PASSED
    assert all("rounding" in output.reason for output in check.outputs)
    for_regions(monkeypatch, shaken(lambda v: v * np.float32(1.001)))
    (done,) = go("tanhs-of-sums").passes
    assert regions(done.checks)[0].verdict is Verdict.FAILED


def test_constants_in_place_of_nodes_are_held_against_what_the_engine_computes(built):
    text = """<ir_version: 8, opset_import: ["": 17]>
    g (float[n,3] a) => (float[n,3] y) <float[3] b = {1, 2, 3}, float[3] c = {4, 5, 7}>
    { s = Mul(b, c) y = Add(a, s) }"""
    done = next(
        d for d in go("fold-constants", text=text).passes if d.name == "fold-constants"
    )
    (check,) = regions(done.checks)
    assert (check.verdict, [o.output for o in check.outputs]) == (Verdict.PASSED, ["y"])


def test_where_all_is_proved_by_structure_nothing_is_built(built):
    report = go("shape-inference")
    assert (built, regions(report.passes[0].checks)) == ([], [])


def test_a_rewrite_in_a_body_is_executed_with_the_node_that_holds_it(built):
    text = """<ir_version: 8, opset_import: ["": 17]>
    g (float[n,3] a, bool c) => (float[n,3] y)
    { y = If (c) <
        then_branch = t () => (float[n,3] u) { u = Add(a, a) },
        else_branch = e () => (float[n,3] v) { v = Mul(a, a) }> }"""
    (done,) = go("sums-by-rule", text=text).passes
    (check,) = regions(done.checks)
    assert (check.verdict, [o.output for o in check.outputs]) == (Verdict.PASSED, ["y"])
    assert {one.kind for one in done.evidence} == {Kind.EXECUTED}
