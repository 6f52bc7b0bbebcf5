import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes import passes
from onnx_passes.configs.pipeline_files import config_from_data
from onnx_passes.model.copy import copy_model
from onnx_passes.passes import registry
from onnx_passes.passes.base import Analysis, RewriteRulePass, Transformation
from onnx_passes.passes.replace import Namer
from onnx_passes.pipeline.pass_execution import Instrument
from onnx_passes.pipeline.run import run_pipeline
from onnx_passes.testing import parse
from onnx_passes.verify import snapshot
from onnx_passes.verify.evidence import Verdict
from onnx_passes.verify.reference_data import ReferenceData
from tests.tables import each_of

CHAIN = (
    "(float[2] x) => (float[2] y) { a = Identity(x) b = Relu(a) c = Identity(b) y = Relu(c) }"
)
runs: list[str] = []


@pytest.fixture(autouse=True)
def own_passes(own_registry):
    for cls in (
        *(CountNodes, UsesCount, KeepsCount, Flip, Grow, Tidy),
        *(BreakOne, Raise, Tie, Meddle, ReluOfMin, Reuse),
    ):
        registry.register()(cls)
    runs.clear()


class Raise(Transformation):
    """Leaves the model half changed."""

    def call(self, model):
        model.graph.node(0).op_type = "Abs"
        raise ValueError("half way")


@passes.verify.equality
class Tie(Transformation):
    """Makes a cycle without adding a node."""

    def call(self, model):
        model.graph.node(1).replace_input_with(0, model.graph.node(2).outputs[0])
        return ir.passes.PassResult(model, True)


class Meddle(Analysis):
    def call(self, model):
        model.graph.node(0).op_type = "Abs"
        return ir.passes.PassResult(model, False)


class CountNodes(Analysis):
    def analyse(self, model):
        runs.append(f"count {len(model.graph)}")
        return len(model.graph)


@passes.verify.equality
class UsesCount(Transformation):
    requires = ("count-nodes",)
    followed_by = ("remove-unused-nodes",)

    def call(self, model):
        runs.append(f"saw {self.context.analysis('count-nodes')}")
        first = model.graph.node(0)
        if first.op_type != "Identity":
            return ir.passes.PassResult(model, False)
        first.outputs[0].replace_all_uses_with(first.inputs[0])
        return ir.passes.PassResult(model, True)


@passes.verify.equality
class KeepsCount(Transformation):
    requires = ("count-nodes",)
    preserves = ("count-nodes",)

    def call(self, model):
        model.graph.node(0).metadata_props["seen"] = "yes"
        return ir.passes.PassResult(model, True)


@passes.verify.tolerance
class Flip(Transformation):
    """Goes back and forth between two graphs that compute the same."""

    def call(self, model):
        node = model.graph.node(1)
        node.op_type = "Relu" if node.op_type == "Abs" else "Abs"
        return ir.passes.PassResult(model, True)


@passes.verify.equality
class Grow(Transformation):
    def call(self, model):
        node = model.graph.node(0)
        extra = ir.Node("", "Identity", [node.inputs[0]])
        extra.outputs[0].name = f"grown_{len(model.graph)}"
        model.graph.insert_before(node, extra)
        node.replace_input_with(0, extra.outputs[0])
        return ir.passes.PassResult(model, True)


@passes.verify.equality
class Tidy(passes.ComposePass, Transformation):
    __passes__ = ("eliminate-identity", "remove-unused-nodes")
    __exhaustive__ = True


@passes.verify.equality
class ReluOfMin(Transformation):
    """Compute Relu(x) as Neg(Min(Neg(x), 0)), by the names that are free."""

    def call(self, model):
        relu = next((n for n in model.graph if n.op_type == "Relu"), None)
        if relu is None:
            return ir.passes.PassResult(model, False)
        namer, zero = Namer(model), ir.node("Constant", [], {"value_float": 0.0})
        opposite = ir.node("Neg", [relu.inputs[0]])
        least = ir.node("Min", [opposite.outputs[0], zero.outputs[0]])
        back = ir.node("Neg", [least.outputs[0]])
        for node, wish in ((zero, "z"), (opposite, "o"), (least, "inner"), (back, "constant")):
            node.outputs[0].name = namer.value(wish)
        model.graph.insert_before(relu, [zero, opposite, least, back])
        relu.outputs[0].replace_all_uses_with(back.outputs[0])
        model.graph.remove(relu, safe=True)
        return ir.passes.PassResult(model, True)


@passes.verify.equality
class Reuse(passes.ComposePass, Transformation):
    """The first pass removes names, and the second would like to have them."""

    __passes__ = ("fold-constants", "remove-unused-nodes", ReluOfMin)


@passes.verify.equality
class BreakOne(Transformation, RewriteRulePass):
    """Right for all but the Relu that computes ``y``."""

    def pattern(self, op, x):
        return op.Relu(x, _outputs=["out"])

    def check(self, context, x, out):
        return x.producer() is not None

    def rewrite(self, op, x, out):
        return op.Neg(x) if out.name == "y" else op.Max(x, op.Constant(value_float=0.0))


POSITIVE = ReferenceData([{"x": np.array([1, 2], np.float32)}], None, "positive")


def run(*steps, model=None, reference=None, instruments=(), **config):
    settings = config_from_data({"passes": list(steps), "reproducers": False, **config})
    model = parse(CHAIN) if model is None else model
    return run_pipeline(model, settings, reference=reference, instruments=instruments)


def names(result):
    return [done.name for done in result.report.passes]


def test_what_is_required_runs_first_and_what_follows_runs_after():
    result = run("uses-count")
    assert names(result) == ["count-nodes", "uses-count", "remove-unused-nodes"]
    assert runs == ["count 4", "saw 4"]
    assert result.report.exit_code == 0


def test_an_analysis_is_kept_until_a_pass_changes_the_model():
    run("keeps-count", "keeps-count", "uses-count", "uses-count")
    assert runs == ["count 4", "saw 4", "count 3", "saw 3"]


def test_passes_that_require_each_other_are_told(monkeypatch):
    monkeypatch.setattr(UsesCount, "required_passes", ("keeps-count",))
    monkeypatch.setattr(KeepsCount, "required_passes", ("uses-count",))
    assert "uses-count -> keeps-count -> uses-count" in str(run("uses-count").error)


def test_a_fixpoint_ends_when_nothing_changes():
    result = run({"group": ["eliminate-identity"], "repeat": "fixpoint", "name": "g"})
    assert [done.group for done in result.report.passes] == ["g#1", "g#2"]


def test_a_fixpoint_ends_when_it_comes_back_to_where_it_was():
    result = run({"group": ["flip"], "repeat": "fixpoint"}, reference=POSITIVE)
    assert result.error is None
    assert len(result.report.passes) == 2


def test_a_fixpoint_that_grows_names_the_pass_at_fault():
    result = run({"group": ["topological-sort", "grow"], "repeat": "fixpoint", "limit": 4})
    assert "still changes the model after 4 rounds: grow" in str(result.error)
    assert result.report.exit_code == 1


def test_a_composed_pass_is_checked_pass_by_pass_then_as_a_whole():
    result = run("tidy")
    assert names(result)[-1] == "tidy"
    assert result.report.passes[-1].verdict is Verdict.PASSED
    assert [n.op_type for n in result.model.graph] == ["Relu", "Relu"]


def test_the_guilty_rewrite_is_found_among_right_ones():
    model = parse(
        """(float[2] x) => (float[2] y) {
        a = Abs(x) b = Relu(a) c = Relu(b) d = Relu(c) y = Relu(d) }"""
    )
    (done,) = run("break-one", model=model).report.passes
    (culprit,) = done.culprits
    blamed = done.rewrites[culprit - 1]
    assert blamed.nodes == ["y = Relu(d)"]
    assert len(done.rewrites) == 4


def test_rollback_restores_bit_for_bit_and_goes_on():
    before = ir.to_proto(parse(CHAIN)).SerializeToString(deterministic=True)
    result = run("break-one", on_failure="rollback")
    assert ir.to_proto(result.model).SerializeToString(deterministic=True) == before
    assert result.report.exit_code == 0
    result = run("break-one", "eliminate-identity", on_failure="rollback")
    assert [d.action for d in result.report.passes] == ["rolled back", "kept"]
    assert result.report.passes[-1].verdict is Verdict.PASSED


def test_after_a_warning_the_next_pass_is_held_against_the_wrong_model():
    result = run("break-one", "eliminate-identity", on_failure="warn")
    assert [d.verdict for d in result.report.passes] == [Verdict.FAILED, Verdict.PASSED]
    assert result.report.exit_code == 1
    assert result.usable


def test_a_checkpoint_holds_the_model_against_the_original():
    result = run("break-one", "checkpoint", on_failure="warn")
    assert result.report.passes[-1].verdict is Verdict.FAILED
    assert run("eliminate-identity", "checkpoint").report.passes[-1].verdict is Verdict.PASSED


def test_the_same_contract_is_judged_by_region_and_by_the_whole_model():
    for scope in ("region", "model"):
        (done,) = run("eliminate-identity", verify={"scope": scope}).report.passes
        assert done.checks[-1].scope == scope
        assert done.verdict is Verdict.PASSED


def test_freezing_a_dimension_drops_the_samples_that_no_longer_fit():
    model = parse("(float[N] x) => (float[N] y) { y = Relu(x) }")
    result = run({"freeze-dims": {"dims": {"N": 7}}}, "eliminate-identity", model=model)
    assert result.report.exit_code == 0, result.report.error
    assert str(result.model.graph.inputs[0].shape) == "[7]"


def test_instruments_see_every_pass():
    seen = []

    class Spy(Instrument):
        def start(self, report, model):
            seen.append("start")

        def before_pass(self, pass_, model, report):
            seen.append(f"before {pass_.name}")

        def after_pass(self, pass_, model, report):
            seen.append(f"after {pass_.name} {report.verdict}")

        def finish(self, report, model):
            seen.append("finish")

    run("eliminate-identity", instruments=[Spy()])
    assert seen == [
        "start",
        "before eliminate-identity",
        "after eliminate-identity passed",
        "finish",
    ]


def test_random_outputs_are_verified_with_seeds_put_in():
    model = parse(
        """(float[4] x) => (float[4] y, float[4] z) {
        a = Identity(x) y = Relu(a) r = RandomNormalLike(x) z = Add(r, a) }"""
    )
    result = run("eliminate-identity", model=model)
    assert result.report.exit_code == 0
    assert result.report.passes[0].verdict is Verdict.PASSED
    assert result.report.not_verified == []


def test_providers_that_are_not_tried_are_named():
    providers = ["CPUExecutionProvider", "AzureExecutionProvider"]
    result = run("eliminate-identity", onnxruntime={"providers": providers})
    assert any("AzureExecutionProvider" in note for note in result.report.notes)


def copies(monkeypatch):
    """The number of nodes of each model that a snapshot copies."""
    made = []

    def counted(model):
        made.append(len(model.graph))
        return copy_model(model)

    monkeypatch.setattr("onnx_passes.verify.snapshot.copy_model", counted)
    return made


UNVERIFIED = {"verify": {"enabled": False}}


def test_an_unverified_run_that_stops_on_failure_copies_the_original_only(monkeypatch):
    made = copies(monkeypatch)
    result = run("eliminate-identity", "remove-unused-nodes", **UNVERIFIED)
    assert [n.op_type for n in result.model.graph] == ["Relu", "Relu"]
    assert made == [4]


def test_an_unverified_run_comes_to_the_same_as_a_verified_one():
    steps = {"group": ["eliminate-identity", "flip"], "repeat": "fixpoint"}
    runs = [run(steps, reference=POSITIVE, **more) for more in ({}, UNVERIFIED)]
    first, second = ([(p.name, p.changed, p.group) for p in r.report.passes] for r in runs)
    assert first == second
    assert runs[0].report.after == runs[1].report.after


def test_an_unverified_run_that_a_pass_ends_gives_the_original_back():
    before = ir.to_proto(parse(CHAIN)).SerializeToString(deterministic=True)
    result = run("eliminate-identity", "raise", **UNVERIFIED)
    assert not result.usable
    assert "half way" in str(result.error)
    assert ir.to_proto(result.model).SerializeToString(deterministic=True) == before
    assert result.report.after == result.report.before


def test_an_unverified_rollback_undoes_what_the_pass_that_raised_has_left():
    result = run("eliminate-identity", "raise", on_failure="rollback", **UNVERIFIED)
    assert [d.action for d in result.report.passes] == ["kept", "rolled back"]
    assert [n.op_type for n in result.model.graph] == ["Relu", "Relu"]


def test_a_cycle_made_by_a_pass_that_is_not_ours_is_found_unverified_too():
    assert "cycle" in str(run("tie", **UNVERIFIED).error)


def test_an_analysis_that_changes_the_model_is_found_unverified_too():
    assert "is an analysis and changed the model" in str(run("meddle", **UNVERIFIED).error)


@each_of("alone", False, True)
def test_no_pass_of_a_sequence_gives_a_removed_name_to_another_value(alone):
    model = parse("""(float[3] x) => (float[3] y) <float[2] w = {-1, 2}>
    { inner = Abs(w) constant = Neg(inner) least = ReduceMin(constant)
      r = Relu(x) y = Add(r, least) }""")
    if alone:
        model = Reuse()(model).model
    else:
        done = run("Reuse", model=model)
        assert done.report.exit_code == 0, done.report.error
        model = done.model
    names = {v.name for node in model.graph for v in node.outputs}
    assert {"o", "inner_1", "constant_1"} <= names
    assert not {"inner", "constant"} & names


def test_a_run_that_checks_nothing_hashes_only_if_it_is_asked(monkeypatch):
    checked = run("eliminate-identity")
    expected = checked.report.before.hash, checked.report.after.hash
    hashed = []
    plain = snapshot.canonical_hash
    monkeypatch.setattr(
        snapshot, "canonical_hash", lambda *a, **k: hashed.append(1) or plain(*a, **k)
    )
    result = run("eliminate-identity", **UNVERIFIED)
    assert not hashed
    result.report.settle()
    assert (result.report.before.hash, result.report.after.hash) == expected
    assert len(hashed) == 2
