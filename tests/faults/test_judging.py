"""What counts as caught and as named, so that the table cannot flatter."""

from types import SimpleNamespace

from benchmarks.faults import oracle, runner
from benchmarks.faults.plant import plant
from benchmarks.faults.suite import FAULTS
from onnx_passes.model import diff, digest
from onnx_passes.model.copy import _Copier
from onnx_passes.passes.common import value_numbering
from onnx_passes.report.run_report import Blame, PassReport, RewriteSummary
from onnx_passes.verify.evidence import Check, Verdict
from tests.tables import each_of

SWAPPED = next(f for f in FAULTS if f.name == "negative-index")
PASSED, FAILED = Verdict.PASSED, Verdict.FAILED


def judged(verdict, culprits=(), error=None, exit_code=0, final=(), blame=()):
    rewrites = [RewriteSummary(n, "rule", [], [(f"y{n}", f"y{n}")], []) for n in (1, 2, 3)]
    checks = [Check("structure", PASSED), Check("equality", verdict, "ort", "region", "why")]
    done = PassReport(0, "p", "equality", verdict, rewrites=rewrites, checks=checks)
    done.culprits = list(culprits)
    report = SimpleNamespace(
        passes=[done], final=final, blame=blame, exit_code=exit_code, seconds=1.0
    )
    return runner.judge(SimpleNamespace(report=report, error=error), SWAPPED, "y2")


def test_a_failed_check_is_caught_by_that_check():
    assert judged(FAILED, [2]).caught
    assert judged(FAILED, [2]).by == "equality, region"


@each_of("blame, named", ([], "none"), ([Blame(0, "p", "by bisection", 2)], "right"))
def test_a_fault_that_the_end_of_the_run_sees_is_named_by_what_was_traced(blame, named):
    final = [Check("drift", FAILED, "ort")]
    seen = judged(PASSED, final=final, blame=blame, error=RuntimeError())
    assert (seen.caught, seen.by, seen.named) == (True, "drift, model", named)


def test_what_is_not_verified_is_only_refused_where_that_is_asked_for():
    assert not judged(Verdict.NOT_VERIFIED).caught
    assert judged(Verdict.NOT_VERIFIED, exit_code=4).verdict == "refused"


@each_of("culprits, named", ([], "none"), ([2], "right"), ([1], "wrong"), ([1, 2], "wrong"))
def test_only_the_guilty_rewrite_alone_is_right(culprits, named):
    assert judged(FAILED, culprits).named == named


# A helper is wrong while its fault is planted, wherever it is used, and right again after.


MERGED = next(f for f in FAULTS if f.name == "digest-of-prefix")
USERS = (digest, value_numbering, diff)


def test_a_function_is_wrong_in_each_module_that_holds_it():
    right = digest.tensor_digest
    with MERGED.planted("*"):
        found = {module.tensor_digest for module in USERS}
        assert len(found) == 1
        assert right not in found
    assert all(module.tensor_digest is right for module in USERS)


def test_a_method_is_right_again_after():
    right = _Copier.node
    with plant("onnx_passes.model.copy", "_Copier.node", lambda _: None)():
        assert _Copier.node is None
    assert _Copier.node is right


def test_an_interface_holds_names_order_types_dimensions_and_defaults():
    proto = MERGED.source.proto(full=False)
    for change in (
        lambda p: setattr(p.graph.output[0], "name", "other"),
        lambda p: p.graph.output.reverse(),
        lambda p: p.graph.input[0].type.tensor_type.shape.dim[0].ClearField("dim_value"),
        lambda p: setattr(p.graph.initializer[0], "name", "x"),
    ):
        changed = type(proto)()
        changed.CopyFrom(proto)
        change(changed)
        assert oracle.interface(changed) != oracle.interface(proto)
