"""``granularity: application``: only wrong rewrites are undone, and the rest is verified."""

import numpy as np
import onnx
import onnx_ir as ir

from onnx_passes.configs.pipeline_files import default_config
from onnx_passes.pipeline import culprit
from onnx_passes.pipeline.run import run_pipeline
from onnx_passes.verify.evidence import Verdict
from tests.tables import each_of, rule_pass

HEAD = '<ir_version: 10, opset_import: ["": 21]> g (float[4] x) => (float[4] y) '


def chain(*weights):
    """Build a chain of additions; weights below 0 are those that the pass gets wrong."""
    given = ", ".join(f"float w{i} = {{{w}}}" for i, w in enumerate(weights))
    body = " ".join(f"v{i + 1} = Add(v{i}, w{i})" for i in range(len(weights)))
    end = len(weights)
    text = f"{HEAD} <{given}> {{ v0 = Neg(x) {body} y = Neg(v{end}) }}"
    return ir.from_proto(onnx.parser.parse_model(text))


rule_pass("UndoSum", "Add(x, w) => Identity(x) if w.const_value.numpy() < 0 else Sum(w, x)")


def run(model, *overrides, steps=("undo-sum",)):
    given = ["on_failure=rollback", "granularity=application", *overrides]
    return run_pipeline(model, default_config(given, steps))


def operators(model):
    return [node.op_type for node in model.graph if node.op_type != "Neg"]


@each_of("scope, wrong", ("auto", "v3"), ("model", "y"))
def test_only_the_wrong_rewrite_is_undone(scope, wrong):
    done = run(chain(1, 2, -3, 4), f"verify.scope={scope}")
    (report,) = done.report.passes
    assert operators(done.model) == ["Sum", "Sum", "Add", "Sum"]
    assert (report.verdict, report.action, report.error) == (Verdict.PASSED, "kept", None)
    assert [r.number for r in report.rewrites] == [1, 2, 3]
    assert report.nodes_after == 6
    assert report.reproducer is not None
    (note,) = report.notes
    assert note.startswith(
        f"rewrite 3 (undo-sum: v3 = Add(v2, w2)) was undone: {wrong} not as expected"
    )
    assert done.report.exit_code == 0
    (told,) = done.report.notes
    assert told.startswith("undo-sum: wrong and undone: rewrite 3; reproducer in ")


def test_several_wrong_rewrites_are_undone_one_after_the_other():
    done = run(chain(-1, 2, -3, 4, -5))
    (report,) = done.report.passes
    assert operators(done.model) == ["Add", "Sum", "Add", "Sum", "Add"]
    assert [note.rsplit("was undone", 1)[0] for note in report.notes] == [
        "rewrite 1 (undo-sum: v1 = Add(v0, w0)) ",
        "rewrite 3 (undo-sum: v3 = Add(v2, w2)) ",
        "rewrite 5 (undo-sum: v5 = Add(v4, w4)) ",
    ]


def test_a_result_is_what_the_original_computes():
    model = chain(1, -2, 3)
    done = run(model.clone())
    x = np.float32([1, 2, 3, 4])

    def outputs(model):
        from onnx.reference import ReferenceEvaluator

        return ReferenceEvaluator(ir.to_proto(model)).run(None, {"x": x})[0]

    assert np.array_equal(outputs(done.model), outputs(model))


def test_a_pass_of_which_nothing_is_left_is_rolled_back_as_a_whole():
    done = run(chain(-1, -2))
    (report,) = done.report.passes
    assert operators(done.model) == ["Add", "Add"]
    assert (report.verdict, report.action) == (Verdict.FAILED, "rolled back")
    assert sorted(report.culprits) == [1, 2]
    assert len(report.rewrites) == 2


def test_a_wrong_rewrite_is_not_made_again_later_in_the_run():
    done = run(chain(1, -2), steps=("undo-sum", "undo-sum"))
    first, second = done.report.passes
    assert len(first.notes) == 1
    assert (second.changed, second.rewrites, second.notes) == (False, [], [])
    assert operators(done.model) == ["Sum", "Add"]


def test_too_many_wrong_rewrites_undo_the_pass(monkeypatch):
    monkeypatch.setattr(culprit, "MOST_CULPRITS", 2)
    (report,) = run(chain(-1, -2, -3, 4)).report.passes
    assert report.action == "rolled back"
    assert sorted(report.culprits) == [1, 2, 3]
    assert "3 rewrites are wrong" in report.notes[0]


def test_passes_after_it_are_held_against_what_was_kept():
    done = run(chain(1, -2, 3), steps=("undo-sum", "eliminate-identity", "undo-sum"))
    assert done.error is None
    assert [p.verdict for p in done.report.passes][1:] == [Verdict.UNCHANGED] * 2
