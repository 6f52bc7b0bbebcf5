from onnx_passes import testing
from onnx_passes.configs.pipeline_files import config_from_data
from onnx_passes.contracts import Tolerance
from onnx_passes.passes.fusion.fuse_all import FIRST, FuseAll
from onnx_passes.passes.registry import lookup
from onnx_passes.pipeline.run import run_pipeline
from tests.tables import pass_cases

CONV = """(float[N,2,4,4] x) => (float[N,2,?,?] y) <float[2,2,1,1] w = {1, 2, 3, 4},
    float[2] s = {1, 2}, float[2] b = {0, 1}, float[2] m = {0.5, 1}, float[2] v = {1, 4}>
    { c = Conv(x, w) n = BatchNormalization(c, s, b, m, v) r = Relu(n) y = Relu(r) }"""


def test_fusions_of_several_passes_are_one_step():
    run = run_pipeline(testing.parse(CONV), config_from_data({"passes": ["fuse-all"]}))
    run.raise_for_failure()
    assert next(n.op_type for n in run.model.graph if n.op_type != "Constant") == "Conv"
    assert "BatchNormalization" not in [n.op_type for n in run.model.graph]
    (step,) = (p for p in run.report.passes if p.name.startswith("fuse-all"))
    assert {r.rule.partition("[")[0] for r in step.rewrites} >= {"fuse-batch-normalization"}
    assert step.verdict == "passed"


def test_fusions_can_be_left_out():
    model = testing.parse(CONV)
    FuseAll(exclude=("fuse-batch-normalization",))(model)
    assert "BatchNormalization" in [n.op_type for n in model.graph]


def test_every_fusion_takes_part_and_none_is_stricter_than_the_whole():
    members = FuseAll().members()
    assert set(members) == set(lookup("fuse"))
    assert [cls.name for cls in members[: len(FIRST)]] == list(FIRST)
    assert [type(c) for c in FuseAll.contracts()] == [Tolerance]


test_cases = pass_cases("""
leaves alone: (float[2] x) => (float[2] y) { y = Relu(x) }
""")
