"""Models with operators that no engine runs: all else is verified, and a file is written."""

import numpy as np
import onnx
import onnx.parser
import onnx_ir as ir
from click.testing import CliRunner

from onnx_passes import passes
from onnx_passes.cli.main import program
from onnx_passes.configs.pipeline_files import default_config
from onnx_passes.passes.base import RewriteRulePass, Transformation
from onnx_passes.pipeline.run import run_pipeline
from onnx_passes.verify.evidence import Kind
from onnx_passes.verify.reference_data import ReferenceData
from tests.tables import each_of, edit_pass

HEAD = '<ir_version: 10, opset_import: ["" : 20, "acme" : 1]> g (float[N, 4] x) => '
AHEAD = "i = Identity(x) a = Exp(i) n = Neg(a) m = Neg(n)"
AROUND = f"""(float[N, 4] y) <float[N, 3] p> {{ {AHEAD} p = acme.Plug<k = 3>(m) b = Abs(p)
    c = Relu(b) y = ReduceMax<keepdims = 1>(c) }}"""
TWICE = """(float[N, 4] y) <float[N, 4] p, float[N, 4] q> { p = acme.Plug(x) r = Neg(p)
    s = Neg(r) q = acme.Plug(s) i = Identity(q) j = Abs(i) y = Relu(j) }"""
LAST = f"(float[N, 3] p, int64[N] o) {{ {AHEAD} p, o = acme.Plug(m) }}"
UNKNOWN = f"(float[N, 4] y) {{ {AHEAD} p = acme.Plug(m) b = Abs(p) c = Relu(b) y = Neg(c) }}"
BODY = f"""(float[N, 4] y) {{ {AHEAD} s = ReduceSum<keepdims = 0>(m) z = Cast<to = 9>(s)
    w = If(z) <then_branch = t () => (float[N, 4] o) {{ o = acme.Plug(m) }}, else_branch = e ()
    => (float[N, 4] u) {{ u = Sin(m) }}> y = Identity(w) }}"""
FUNCTION = f"""(float[N, 4] y) <float[N, 4] p> {{ {AHEAD} p = acme.Fun(m) y = Abs(p) }}
    <domain: "acme", opset_import: ["" : 20, "acme" : 1]> Fun (v) => (w) {{ k = Neg(v)
    w = acme.Plug(k) }}"""


class _Rule(RewriteRulePass, Transformation):
    def pattern(self, op, x):
        return op.Neg(op.Neg(x))

    def rewrite(self, op, x):
        return op.Identity(x)


@passes.verify.equality
@passes.register()
class WithoutEngineRight(_Rule):
    """Two negations cancel."""


@passes.verify.equality
@passes.register()
class WithoutEngineAhead(_Rule):
    """Lose one of two negations."""

    def rewrite(self, op, x):
        return op.Neg(x)


@passes.verify.equality
@passes.register()
class WithoutEngineBehind(_Rule):
    """Lose an Abs."""

    def pattern(self, op, x):
        return op.Relu(op.Abs(x))

    def rewrite(self, op, x):
        return op.Relu(x)


@edit_pass()
def without_engine_changed(model):
    """Change an attribute of the operator itself."""
    for node in model.graph:
        if node.op_type == "Plug":
            node.attributes["k"] = ir.AttrInt64("k", 4)


def run(text, *steps):
    config = default_config(["reproducers=false"], list(steps))
    return run_pipeline(ir.from_onnx_text(HEAD + text), config)


@each_of("text", AROUND, TWICE, LAST, UNKNOWN, BODY, FUNCTION)
def test_what_engines_run_is_verified_and_the_rest_is_named(text):
    done = run(text, "without-engine-right", "eliminate-identity", "unique-names")
    assert done.error is None
    assert done.report.not_verified == ["no engine runs acme::Plug"]
    kinds = {one.kind for p in done.report.passes for one in p.evidence}
    assert Kind.EXECUTED in kinds
    assert all(kind.verifies for kind in kinds)
    assert any("custom_ops" in note for note in done.report.notes)


@each_of(
    "text, step",
    (AROUND, "without-engine-ahead"),
    (AROUND, "without-engine-behind"),
    (TWICE, "without-engine-ahead"),
    (TWICE, "without-engine-behind"),
    (LAST, "without-engine-ahead"),
    (UNKNOWN, "without-engine-ahead"),
    (BODY, "without-engine-ahead"),
)
def test_a_fault_on_either_side_fails(text, step):
    assert "far" in str(run(text, step).error) or "expected" in str(run(text, step).error)


@each_of("text, step", (AROUND, "without-engine-changed"), (UNKNOWN, "without-engine-behind"))
def test_a_change_of_what_no_engine_runs_is_not_verified(text, step):
    done = run(text, step)
    assert done.error is None
    assert any("is not what it was" in one for one in done.report.not_verified)


def test_equal_operators_whose_results_are_renamed_are_known_by_what_they_read():
    nodes = "p = acme.Plug(x) i = Identity(p) q = acme.Plug(i) y = Identity(q)"
    text = f"(float[N, 4] y) {{ {nodes} }}"
    done = run(text, "eliminate-identity")
    assert done.error is None
    assert done.report.not_verified == ["no engine runs acme::Plug"]


def test_equal_weights_of_such_an_operator_may_become_one():
    text = (
        "(float[N, 4] y) <float[2] v = {1, 2}, float[2] w = {1, 2}> { y = acme.Plug(x, v, w) }"
    )
    done = run(text, "deduplicate-initializers")
    assert done.error is None
    assert len(done.model.graph.initializers) == 1
    assert done.report.not_verified == ["no engine runs acme::Plug"]


def test_faults_of_the_original_are_not_new_however_many_there_are():
    unused = " ".join(f"u{k} = other.Plug(x)" for k in range(21))
    text = f"(float[N, 4] y) {{ {unused} v = third.Plug(x) i = Identity(v) y = Abs(x) }}"
    done = run(text, "remove-unused-nodes")
    assert done.error is None
    assert len(done.model.graph) == 1
    (told,) = [note for note in done.report.notes if "is not valid ONNX" in note]
    assert told.endswith("and 21 more like it")


def test_operators_of_a_newer_opset_are_of_no_engine():
    """A HardSwish at opset 10 beside an unknown operator was refused."""
    head = HEAD.replace('"" : 20', '"" : 10').replace("ir_version: 10", "ir_version: 5")
    text = "(float[N, 4] y) <float[N, 4] p> { p = RMSNorm(x) b = Relu(p) y = HardSwish(b) }"
    done = run_pipeline(
        ir.from_onnx_text(head + text), default_config([], ["without-engine-right"])
    )
    assert done.error is None
    assert [node.op_type for node in done.model.graph][-1] == "HardSwish"


def test_operators_that_an_engine_has_are_run():
    text = "(float[N, 4] y) { a = com.microsoft.Gelu(x) b = Neg(a) c = Neg(b) y = Abs(c) }"
    model = ir.from_onnx_text((HEAD + text).replace("acme", "com.microsoft"))
    done = run_pipeline(model, default_config([], ["without-engine-right"]))
    assert done.report.not_verified == []


@each_of("domain", "", "trt.plugins")
def test_from_the_command_line_with_inputs_of_the_user(domain, tmp_path):
    theirs = f', "{domain}" : 1' if domain else ""
    operator = f"{domain}.NobodyHasThis".lstrip(".")
    text = f"""<ir_version: 9, opset_import: ["" : 18{theirs}]>
        g (float[n, 4] x) => (float[n, 6] y) <float[n, 6] p> {{
            m = Identity(x) p = {operator}(m) r = Relu(p) y = Relu(r) }}"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "m.onnx")
    np.save(tmp_path / "x.npy", np.ones((3, 4), np.float32))
    for given in ([], ["-s", f"reference.inputs={tmp_path / 'x.npy'}"]):
        words = ["-c", "optimize", "-o", str(tmp_path / "o.onnx"), str(tmp_path / "m.onnx")]
        found = CliRunner().invoke(program, [*words, *given])
        assert found.exit_code == 0, found.output
        assert "PARTLY VERIFIED" in found.output
        assert [n.op_type for n in onnx.load(tmp_path / "o.onnx").graph.node] == [
            "NobodyHasThis",
            "Relu",
        ]


@each_of("dim", None, "2*N")
def test_inputs_of_the_user_need_no_plain_names_of_dimensions(dim):
    model = ir.from_onnx_text(HEAD + AROUND)
    model.graph.inputs[0].shape = ir.Shape([dim, 4])
    given = ReferenceData([{"x": np.ones((4, 4), np.float32)}], None, "test")
    config = default_config(["reproducers=false"], ["without-engine-right"])
    done = run_pipeline(model, config, reference=given)
    assert done.error is None
    assert done.report.not_verified == ["no engine runs acme::Plug"]
