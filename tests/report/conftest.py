"""Reports as real runs leave them: a good one, a failed one, an unverified one, a huge one."""

import copy

import pytest

from onnx_passes.report.run_report import (
    EngineReport,
    ModelSummary,
    PassReport,
    ReferenceReport,
    RewriteSummary,
    RunReport,
)
from onnx_passes.verify.evidence import Check, MetricCheck, OutputCheck, Verdict

ORT = "onnxruntime"
ORT_OFF = "onnxruntime (optimization=disabled)"
REFERENCE = "reference"


def output(
    name="resnetv17_dense0_fwd", error=0.0, *, rtol=0.0, atol=0.0, expected=12.25, **more
):
    """Compare one output whose worst element is off by ``error``."""
    actual = expected + error if isinstance(expected, float) else expected
    given = {"output": name, "passed": True, "worst": (0, 463), "size": 1000}
    given |= {"max_abs": error, "max_rel": error / 12.25, "rtol": rtol, "atol": atol}
    given |= {"expected": str(expected), "actual": str(actual)}
    return OutputCheck(**given | more)


def equal(engine=ORT, scope="region", seconds=0.022):
    checked = (output(),)
    return Check("equality", Verdict.PASSED, engine, scope, outputs=checked, seconds=seconds)


def close(error, engine=ORT, scope="model", kind="tolerance", seconds=0.41):
    checked = (output(error=error, rtol=1.3e-6, atol=1e-5),)
    return Check(kind, Verdict.PASSED, engine, scope, outputs=checked, seconds=seconds)


def structure():
    return Check("structure", Verdict.PASSED, seconds=0.001)


def rewrites(rule, count, first, before, after):
    return [
        RewriteSummary(
            first + i,
            rule,
            [node.replace("#", str(i)) for node in before],
            [(f"{rule}_in_{i}", f"{rule}_out_{i}")],
            [node.replace("#", str(i)) for node in after],
        )
        for i in range(count)
    ]


def passed(index, name, nodes, checks, **more):
    size = 102_442_450
    given = {"verdict": Verdict.PASSED, "changed": True, "claimed": True, "checks": checks}
    given |= {"contract": "equality", "bytes_before": size, "bytes_after": size}
    given |= {"pass_seconds": 0.012, "verify_seconds": 0.031}
    before, after = nodes
    return PassReport(index + 1, name, nodes_before=before, nodes_after=after, **given | more)


def unchanged(index, name, nodes, **more):
    given = {"contract": "equality", "pass_seconds": 0.004}
    return PassReport(index + 1, name, nodes_before=nodes, nodes_after=nodes, **given | more)


def resnet50():
    """Build a verified run of twelve passes."""
    conv = "Conv[kernel_shape=[3,3]](x, w#"
    fold = rewrites(
        *("FoldBatchNormalization", 53, 3),
        [f"{conv}) -> conv#", "BatchNormalization(conv#, s#, b#) -> bn#"],
        [f"{conv}_folded, b#_folded) -> bn#"],
    )
    relus = ["Relu(a#) -> r#", "Relu(r#) -> rr#"], ["Relu(a#) -> rr#"]
    gemm = ["MatMul(f, w) -> m", "Add(m, b) -> y"], ["Gemm(f, w, b) -> y"]
    ident = rewrites("EliminateIdentity", 2, 1, ["Identity(x#) -> y#"], [])
    same = [structure(), equal()]
    near = {"contract": "tolerance", "rewrites": fold, "budget_spent": 0.19}
    joined = {"contract": "tolerance(atol=1e-05)", "budget_spent": 0.61}
    note = "173 values got a shape; 2 keep a symbolic batch dimension N."
    start, folded, normed, end = 102_442_450, 102_443_102, 102_230_366, 102_226_010
    typed = {"contract": "none", "notes": [note], "verify_seconds": 0.001}
    grown = {"bytes_after": folded, "pass_seconds": 0.188, "verify_seconds": 0.044}
    near |= {"bytes_before": folded, "bytes_after": normed, "verify_seconds": 1.93}
    fewer = {"bytes_before": normed, "bytes_after": end, "budget_spent": 0.19}
    joined |= {"bytes_before": end, "bytes_after": end}
    merged = {"group": "cleanup#1", "budget_spent": 0.19}
    merged["rewrites"] = rewrites("MergeRelus", 4, 56, *relus)
    joined["rewrites"] = rewrites("FuseGemm", 1, 60, *gemm)
    slow = close(3.3e-6, REFERENCE, seconds=1.1)
    nearly = [structure(), close(2.9e-6), close(4.1e-6, ORT_OFF), slow]
    folding = "fold-constants{size_limit=1MiB}"
    passes = [
        unchanged(0, "model-checker", 231, contract="none", pass_seconds=0.021),
        passed(1, "shape-inference{data_prop=true}", (231, 231), [structure()], **typed),
        passed(2, "eliminate-identity", (231, 229), same, rewrites=ident),
        passed(3, folding, (229, 175), [*same, equal(ORT_OFF)], **grown),
        unchanged(4, "eliminate-common-subexpressions", 175),
        passed(5, "fold-batch-normalization", (175, 122), nearly, **near),
        unchanged(6, "merge-clips", 122, group="cleanup#1"),
        passed(7, "merge-relus", (122, 118), same, **merged),
        unchanged(8, "merge-clips", 118, group="cleanup#2"),
        unchanged(9, "merge-relus", 118, group="cleanup#2"),
        passed(10, "deduplicate-initializers", (118, 118), same, **fewer),
        passed(
            *(11, "fuse-gemm-activation", (118, 117)),
            [structure(), close(7.6e-6), close(8.8e-6, ORT_OFF)],
            **joined,
        ),
    ]
    metrics = (MetricCheck("top-1-accuracy", 0.7582, 0.75, 1.0, 500),)
    metric = Check("metric", Verdict.PASSED, ORT, metrics=metrics, seconds=9.2)
    kept = {"Conv": 53, "Add": 16, "GlobalAveragePool": 1, "Flatten": 1, "Gemm": 1}
    gone = {"BatchNormalization": 53, "Relu": 53, "Constant": 51, "Identity": 2}
    engine = {"version": "1.31.1", "provider": "CPU", "optimization": "all", "threads": 2}
    off = {"version": "1.31.1", "provider": "CPU", "optimization": "disabled"}
    versions = {"onnx-passes": "1.0.0.dev0", "onnx": "1.23.2", "onnx-ir": "1.1.0"}
    image = {"data": "float32 [1,3,224,224] in [-2.1, 2.6]"}
    steps = [done.name for done in passes if done.group is None]
    steps.insert(-2, "cleanup(merge-clips merge-relus){repeat=fixpoint}")
    return RunReport(
        model="models/resnet50-v1-7.onnx",
        output="out/resnet50.onnx",
        pipeline="\n".join(steps),
        verify=True,
        versions=versions | {"numpy": "2.4.6"},
        machine={"processor": "x86_64, 2 cores", "memory": "8.3 GB", "system": "Linux 6.1"},
        before=ModelSummary(231, kept | gone, 267, start, {"": 17}, "9f2c51be77a0"),
        after=ModelSummary(117, kept | {"Relu": 45}, 108, end, {"": 17}, "41d09a3c6be2"),
        engines=[
            EngineReport(ORT, "each", engine, noise=4.8e-7),
            EngineReport(ORT_OFF, "checkpoint", off),
            EngineReport(REFERENCE, "checkpoint", {"version": "1.23.2"}),
        ],
        reference=ReferenceReport("generated (seed 0)", 3, image),
        passes=passes,
        final=[close(8.8e-6, kind="drift"), close(9.1e-6, ORT_OFF, kind="drift"), metric],
        notes=["Weights are kept inside the file, as in the input."],
        seconds=13.4,
        started="2026-02-03T10:20:30+01:00",
        planned=9,
    )


BREAK = (
    "PostconditionError: Post-condition for pass 'BreakAdds' failed\n"
    "VerificationError: resnetv17_dense0_fwd not as expected: 998 of 1000 elements differ, "
    "by up to 9.31"
)


def break_adds(index=6, action="stopped", **more):
    """Build a pass that broke the model."""
    why = "998 of 1000 elements differ, by up to 9.31"
    wrong = output(error=9.3125, passed=False, mismatched=998, reason=why)
    failed = Check("equality", Verdict.FAILED, ORT, "model", sample=1, outputs=(wrong,))
    given = {
        "verdict": Verdict.FAILED,
        "action": action,
        "rewrites": rewrites(
            "BreakAdds", 16, 56, ["Add(bn#, shortcut#) -> add#"], ["Add(bn#, bn#) -> add#"]
        ),
        "culprits": [58],
        "reproducer": "out/reproducer-6-break-adds",
        "error": BREAK,
    }
    return passed(index, "break-adds", (122, 122), [structure(), failed], **given | more)


def broken():
    """Build a run that a failed pass ended."""
    report = resnet50()
    report.passes[6:] = [break_adds()]
    report.output, report.error, report.exit_code, report.final = None, BREAK, 1, []
    report.after.nodes, report.after.weight_bytes = 122, 102_230_366
    report.not_verified = ["Passes after 'break-adds' were not run."]
    return report


def unverified():
    """Build a run with verification off."""
    report = resnet50()
    report.verify = False
    report.engines, report.final, report.reference = [], [], None
    for done in report.passes:
        done.checks, done.verify_seconds, done.budget_spent = [], 0.0, None
        if done.changed:
            done.verdict = Verdict.NOT_VERIFIED
    report.not_verified = ["Verification was switched off by --no-verify."]
    return report


def partly():
    """Build a run in which an engine could not take part."""
    report = resnet50()
    why = "TensorRT 10.3 is not on this machine (no libnvinfer.so.10)"
    for index in (5, 11):
        report.passes[index].verdict = Verdict.NOT_VERIFIED
        report.passes[index].checks.append(
            Check("tolerance", Verdict.NOT_VERIFIED, "tensorrt (fp16)", reason=why)
        )
    report.engines.append(EngineReport("tensorrt (fp16)", "checkpoint", {}))
    report.not_verified = [
        f"fold-batch-normalization on tensorrt (fp16): {why}.",
        f"fuse-gemm-activation on tensorrt (fp16): {why}.",
    ]
    return report


def huge(passes=1000, applications=10_000):
    """Build a run of very many passes and rewrites."""
    report = resnet50()
    each = applications // passes
    relus = ["Relu(a#) -> r#"] * 4, ["Relu(a#) -> q#"]
    report.passes = [
        passed(
            *(i, f"merge-relus-{i}", (20_000 - i, 19_999 - i)),
            [structure(), close(1e-7 * (1 + i % 80))],
            contract="tolerance",
            rewrites=rewrites(f"Rule{i % 150}", each, 1 + each * i, *relus),
        )
        for i in range(passes)
    ]
    return report


HOSTILE = "</title></style><script>alert(1)</script>\"'&\x1b[31m\u202eevil\x00\n]]>"


def hostile():
    """Build a failed run in which every name comes from an enemy."""
    report = broken()
    bad = report.passes[-1]
    bad.name = report.model = bad.group = bad.contract = report.error = bad.error = HOSTILE
    bad.notes = report.notes = report.not_verified = [HOSTILE]
    bad.reproducer = report.pipeline = HOSTILE
    for rewrite in bad.rewrites:
        rewrite.rule, rewrite.nodes, rewrite.new_nodes = HOSTILE, [HOSTILE], [HOSTILE]
    wrong = output(HOSTILE, passed=False, reason=HOSTILE, expected=1.0, actual=HOSTILE)
    bad.checks = [Check("equality", Verdict.FAILED, HOSTILE, reason=HOSTILE, outputs=(wrong,))]
    report.engines[0].name = report.engines[0].fallback_for = HOSTILE
    report.engines[0].details = {HOSTILE: HOSTILE}
    report.versions = report.machine = report.reference.inputs = {HOSTILE: HOSTILE}
    report.reference.source = HOSTILE
    report.before.operators = report.before.opsets = {HOSTILE: 3}
    return report


BAD = "model.onnx is not an ONNX model"
BUILDERS = {
    "resnet50": resnet50,
    "broken": broken,
    "unverified": unverified,
    "partly": partly,
    "huge": huge,
    "hostile": hostile,
    "empty": lambda: RunReport("model.onnx", None, "", verify=True),
    "unreadable": lambda: RunReport("model.onnx", None, "", True, error=BAD, exit_code=3),
}


@pytest.fixture
def sample():
    """Build a report by name."""
    return lambda name: copy.deepcopy(BUILDERS[name]())


@pytest.fixture(params=BUILDERS)
def any_report(request):
    return BUILDERS[request.param]()


@pytest.fixture
def build():
    """Give the small builders to tests that need an unusual report."""
    names = [equal, close, structure, output, passed, unchanged, break_adds, rewrites]
    return type("Build", (), {f.__name__: staticmethod(f) for f in names})
