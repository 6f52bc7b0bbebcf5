import gc
import inspect
import re

import onnx_ir as ir
import pytest

from onnx_passes import passes
from onnx_passes.configs.pipeline_files import config_from_data
from onnx_passes.passes import registry, rewriting
from onnx_passes.passes.annotation import shape_inference
from onnx_passes.passes.annotation.shape_inference import infer_shapes
from onnx_passes.passes.base import Transformation
from onnx_passes.pipeline.garbage_collection import only_new_objects, patient_collector
from onnx_passes.pipeline.run import run_pipeline
from onnx_passes.testing import parse
from onnx_passes.verify import snapshot
from onnx_passes.verify.evidence import Verdict
from tests.tables import each_of

CHAIN = "(float[2] x) => (float[2] y) { a = Identity(x) b = Relu(a) c = Neg(b) y = Neg(c) }"
calls: list[str] = []


@passes.verify.equality
class LibraryLike(Transformation):
    repeats_itself = True

    def call(self, model):
        calls.append(self.name)
        self.context.notes.append("looked")
        return ir.passes.PassResult(model, False)


@passes.verify.equality
class OfTheUser(Transformation):
    """Does something at its third call only, as its state says."""

    def call(self, model):
        calls.append(self.name)
        if calls.count(self.name) == 3:
            model.graph.node(0).doc_string = "third"
            model.graph.node(1).op_type = "Abs"
        return ir.passes.PassResult(model, False)


@pytest.fixture(autouse=True)
def own_passes(own_registry):
    for cls in (LibraryLike, OfTheUser):
        registry.register()(cls)
    calls.clear()


def run(*names, verify=False):
    config = config_from_data({"passes": list(names), "verify": {"enabled": verify}})
    return run_pipeline(parse(CHAIN), config)


def test_a_pass_that_left_the_model_alone_does_not_run_on_it_again():
    done = run("library-like", "library-like", "library-like").report
    assert calls == ["library-like"]
    assert [p.changed for p in done.passes] == [False] * 3
    assert [p.notes for p in done.passes] == [["looked"]] * 3


def test_it_runs_again_once_another_pass_changed_the_model():
    run("library-like", "eliminate-identity", "library-like")
    assert calls == ["library-like"] * 2


def test_a_pass_with_state_of_its_own_always_runs():
    done = run("of-the-user", "of-the-user", "of-the-user")
    assert len(calls) == 3
    assert done.report.passes[-1].changed


@pytest.fixture
def inferences(monkeypatch):
    counted = []

    def counting(*args, **kwargs):
        counted.append(1)
        return infer_shapes(*args, **kwargs)

    monkeypatch.setattr(shape_inference, "infer_shapes", counting)
    return counted


@each_of("verify", False, True)
def test_shapes_are_not_inferred_again_of_what_inference_left(inferences, verify):
    done = run("shape-inference", "shape-inference", verify=verify).report
    assert [p.changed for p in done.passes] == [True, False]
    assert len(inferences) == 1


def test_a_subclass_of_a_library_pass_does_not_inherit_the_promise():
    library = registry.lookup("eliminate-identity")[0]
    assert library.repeats_itself
    assert not type("Mine", (library,), {"__module__": "mine"}).repeats_itself


def test_library_passes_share_no_state():
    found = [cls for cls in registry.all_passes() if cls.repeats_itself]
    assert len(found) > 50
    for cls in found:
        source = inspect.getsource(cls)
        handed_on = re.sub(r"\w+\([\w.]+, self.state_dict\)", "", source)
        assert "state_dict" not in handed_on, cls.name


@each_of("verify", False, True)
def test_rules_without_their_operators_are_not_tried_nor_measured(monkeypatch, verify):
    swept, keys = [], []
    rewrite, exact_key = rewriting.rewrite, snapshot.exact_key
    monkeypatch.setattr(rewriting, "rewrite", lambda *a: swept.append(a) or rewrite(*a))
    monkeypatch.setattr(snapshot, "exact_key", lambda m: keys.append(m) or exact_key(m))
    done = run("eliminate-negated-condition", "eliminate-double-reshape", verify=verify)
    assert not swept
    assert len(keys) == 1  # of the original
    assert all(not p.changed for p in done.report.passes)


@each_of("steps", (), ("eliminate-identity",))
def test_what_a_library_pass_changed_and_denied_is_measured_and_fails(monkeypatch, steps):
    def deny(self, model):
        model.graph.node(1).op_type = "Abs"
        return ir.passes.PassResult(model, False)

    (cls,) = registry.lookup("lift-constants")
    monkeypatch.setattr(cls, "call", deny)
    done = run("lift-constants", *steps, verify=True)
    assert done.report.exit_code == 1
    assert [p.verdict for p in done.report.passes if p.changed] == [Verdict.FAILED]
    assert not any(node.op_type == "Abs" for node in done.model.graph)


def test_the_collector_is_as_before_after_a_run():
    before = gc.get_threshold()
    with patient_collector():
        assert gc.get_threshold() > before
    assert gc.get_threshold() == before


@each_of("frozen", 0, 5)
def test_what_is_left_out_of_collections_is_as_before(monkeypatch, frozen):
    calls = []
    monkeypatch.setattr(gc, "get_freeze_count", lambda: frozen)
    monkeypatch.setattr(gc, "freeze", lambda: calls.append("freeze"))
    monkeypatch.setattr(gc, "unfreeze", lambda: calls.append("unfreeze"))
    with only_new_objects():
        assert calls == ([] if frozen else ["freeze"])
    assert calls == ([] if frozen else ["freeze", "unfreeze"])


@each_of("operator, runs", ("Shape", True), ("Relu", False))
def test_a_pass_of_the_library_is_skipped_without_its_operators(monkeypatch, operator, runs):
    (cls,) = registry.lookup("shorten-shape-arithmetic")
    seen = []

    def call(self, model):
        seen.append(self.name)
        return ir.passes.PassResult(model, False)

    monkeypatch.setattr(cls, "call", call)
    types = {"Shape": "int64[1]", "Relu": "float[2]"}
    text = f"(float[2] x) => ({types[operator]} y) {{ y = {operator}(x) }}"
    config = config_from_data({"passes": [cls.name], "verify": {"enabled": False}})
    run_pipeline(parse(text), config)
    assert bool(seen) == runs


NOTHING_DONE = """(float[2,3] x) => (float[2,3] y) {
    a = Relu(x) b = Cast<to = 1>(a) c = Neg(b) y = Exp(c) }"""
DONE_AT_ONCE = """(float[2,3,4] x) => (float[4,2,3] y) { a = Transpose<perm = [1, 2, 0]>(x)
    b = Transpose<perm = [1, 2, 0]>(a) y = Neg(b) }"""


@each_of(
    "text, step, inferences",
    (NOTHING_DONE, "eliminate-noop-cast", 1),
    (DONE_AT_ONCE, "eliminate-double-transpose", 1),
    (DONE_AT_ONCE.replace("2,3,4", "N,3,4"), "eliminate-double-transpose", 1),
    (DONE_AT_ONCE.replace("2,3,4", "unk__5,3,4"), "eliminate-double-transpose", 2),
)
def test_shapes_are_inferred_again_unless_what_is_new_says_its_own(text, step, inferences):
    steps = ["shape-inference", step, "eliminate-noop-reshape"]
    run = run_pipeline(parse(text), config_from_data({"passes": steps, "verify": False}))
    assert len(run.model.graph) == len(parse(text).graph) - 1
    assert sum(p.name == "shape-inference" for p in run.report.passes) == inferences
