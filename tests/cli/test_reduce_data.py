"""``onnx-passes reduce --data``: a model is reduced on the first sample that fails."""

import json

import numpy as np
import onnx
import pytest

CHAIN = """<ir_version: 10, opset_import: ["" : 20]>
g (float[N,4] x) => (float[N,4] y) {
    a = Relu(x) b = Neg(a) c = Abs(b) d = Sqrt(c) e = Relu(d) f = Cos(e) y = Neg(f)
}"""
PASSES = """\
from onnx_passes import passes
from onnx_passes.passes.base import RewriteRulePass, Transformation


@passes.verify.equality
@passes.register()
class BoundAbs(Transformation, RewriteRulePass):
    '''Wrong above 100.'''

    def pattern(self, op, x):
        return op.Abs(x)

    def rewrite(self, op, x):
        return op.Min(op.Max(x, op.Neg(x)), op.Constant(value_float=100.0))
"""
RARE = 1234  # the only sample with an element above 100


@pytest.fixture
def chain(cli, write, tmp_path):
    """A chain of nodes, data, and a pipeline with a pass that is wrong on one sample."""
    onnx.save(onnx.parser.parse_model(CHAIN), tmp_path / "chain.onnx")
    x = np.random.default_rng(0).uniform(-9, 9, size=(2_000, 4)).astype(np.float32)
    x[RARE, 1] = 400.0
    np.save(tmp_path / "x.npy", x)
    write("rare_passes.py", PASSES)
    write("p.yaml", "imports: [rare_passes]\npasses: [bound-abs]\n")
    return cli


def reduced(path="small.onnx"):
    return [node.op_type for node in onnx.load(path).graph.node]


WORDS = ("reduce", "chain.onnx", "-o", "small.onnx", "-c", "p.yaml")
DATA = ("--data", "x.npy", "--shard", "100")


def test_a_fault_on_one_sample_is_reduced_to_its_node(chain):
    found = chain(*WORDS)
    assert found.code == 2
    assert "does not fail on the whole model" in found.err
    found = chain(*WORDS, *DATA, "--json")
    assert found.code == 0, found.err
    told = json.loads(found.out)
    assert (told["before"], told["after"]) == (7, 1)
    assert reduced() == ["Abs"]
    assert (
        f"reduced on x.npy[{RARE}], the first sample of the data that fails" in told["notes"]
    )
    # The node reads an inner value, which is computed from the sample.
    assert [v.name for v in onnx.load("small.onnx").graph.input] == ["b"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((*WORDS, *DATA, "--limit", "100"), "samples and differs on none: there is nothing"),
        ((*WORDS, *DATA, "-j", "2"), "-j 2 needs --check"),
        ((*WORDS, *DATA, "--scheduler", "local:2"), "No such option"),
    ],
)
def test_what_cannot_be_reduced_is_told(chain, words, told):
    found = chain(*words)
    assert found.code == 2
    assert told in found.err


def test_a_pass_that_raises_fails_on_the_first_sample(chain, write):
    write("rare_passes.py", PASSES.replace("return op.Min", "raise KeyError(x)  # op.Min"))
    found = chain(*WORDS, *DATA)
    assert found.code == 0, found.err
    assert reduced() == ["Abs"]


def test_two_engines_differ_over_the_data(chain):
    """onnx's reference evaluator is wrong about global pools of three dimensions."""
    pools = """<ir_version: 9, opset_import: ["" : 18]>
    g (float[N,2,6] x) => (float[N,2,6] y, float[N,2,1] z) {
        a = Relu(x) b = Neg(a) y = Abs(b) d = Sin(a) e = GlobalMaxPool(d) z = Cos(e)
    }"""
    onnx.save(onnx.parser.parse_model(pools), "pools.onnx")
    x = np.random.default_rng(0).normal(size=(40, 2, 6)).astype(np.float32)
    np.savez("pools.npz", x=x)
    found = chain(
        *("reduce", "pools.onnx", "-o", "small.onnx", "--data", "pools.npz"),
        *("--engine", "reference", "--against", "onnxruntime"),
    )
    assert found.code == 0, found.err
    assert reduced() == ["GlobalMaxPool"]


def test_data_that_no_engine_takes_is_no_failure(chain):
    gather = """<ir_version: 9, opset_import: ["" : 18]>
    g (int64[N] x) => (int64[N] y) {
        a = Abs(x) t = Constant <value_ints: ints = [1, 2, 3, 4]> ()
        b = Gather(t, a) y = Neg(b)
    }"""
    onnx.save(onnx.parser.parse_model(gather), "gather.onnx")
    x = np.arange(40, dtype=np.int64) % 4
    x[33] = 9  # beyond the table: both engines refuse it, so that nothing can be said
    np.save("gather.npy", x)
    words = ("reduce", "gather.onnx", "-o", "small.onnx", "--data", "x=gather.npy")
    found = chain(*words, "--engine", "reference", "--against", "onnxruntime", "--shard", "8")
    assert found.code == 5
    assert "could not be evaluated: gather.npy[33] does not run where it is right" in found.err


LOGARITHM = """<ir_version: 10, opset_import: ["" : 20]>
g (float[N,4] x) => (float[N,4] y) { a = Relu(x) b = Log(a) c = Abs(b) y = Neg(c) }"""


@pytest.mark.parametrize("batch", [1, 8])
def test_without_another_engine_the_first_sample_that_is_not_finite_is_found(cli, batch):
    onnx.save(onnx.parser.parse_model(LOGARITHM), "log.onnx")
    x = np.random.default_rng(0).uniform(1, 9, size=(500, 4)).astype(np.float32)
    x[RARE % 500, 2] = 0.0
    np.save("x.npy", x)
    words = ("reduce", "log.onnx", "-o", "small.onnx", "-e", "onnxruntime", "--data", "x.npy")
    found = cli(*words, "--batch", str(batch), "--shard", "100")
    assert found.code == 0, found.err
    assert reduced() == ["Log"]
    first = RARE % 500 // batch * batch
    assert f"reduced on x.npy[{first}], the first sample of the data" in found.out
    found = cli(*words, "--limit", "100")
    assert found.code == 2
    assert "onnxruntime runs all 100 samples and makes no NaN or Inf" in found.err
    assert cli(*words, "--against", "golden", "--load-inputs", "x.npy").code == 2


def test_without_another_engine_a_sample_that_does_not_run_is_found(cli):
    text = """<ir_version: 10, opset_import: ["" : 20]>
    g (float[N,4] x, int64[N,1] i) => (float[N,1] y) {
        a = Relu(x) b = GatherElements<axis = 1>(a, i) y = Neg(b) }"""
    onnx.save(onnx.parser.parse_model(text), "index.onnx")
    index = np.zeros((50, 1), np.int64)
    index[33] = 4
    np.savez("data.npz", x=np.ones((50, 4), np.float32), i=index)
    found = cli(
        *("reduce", "index.onnx", "-o", "small.onnx", "-e", "onnxruntime"),
        *("--data", "data.npz"),
    )
    assert found.code == 0, found.err
    assert reduced() == ["GatherElements"]
    assert "reduced on data.npz[33]" in found.out
