"""What holds on the inputs that were given, and not on others."""

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.cli.modules import rule_pass
from tests.tables import each_of

LEAKY = rule_pass("ForgetSlopes", "op.LeakyRelu(x)", "op.Relu(x)")
POSITIVE = """<ir_version: 8, opset_import: ["" : 17]> g (float[4, 3] x) => (float[4, 2] y)
    <float[3, 2] w = {1, 2, 3, 4, 5, 6}> { m = MatMul(x, w) l = LeakyRelu(m) y = Exp(l) }"""


@pytest.fixture
def run(cli, write, tmp_path):
    write("leaky.py", LEAKY)
    onnx.save(onnx.parser.parse_model(POSITIVE), tmp_path / "positive.onnx")
    np.savez(tmp_path / "x.npz", x=np.linspace(0.1, 1, 12, dtype=np.float32).reshape(4, 3))

    def call(*words, given=True, **more):
        config = {
            "imports": ["leaky"],
            "passes": ["ForgetSlopes"],
            "reproducers": False,
            **more,
        }
        if given:
            config["reference"] = {"inputs": "x.npz"}
        path = write("cfg.yaml", json.dumps(config))
        done = cli("-c", path, "-o", "out.onnx", "positive.onnx", "--json", "r.json", *words)
        return done, json.loads((tmp_path / "r.json").read_text())

    return call


def test_a_rewrite_that_is_right_on_the_given_inputs_alone_is_a_precondition(run):
    done, report = run()
    assert done.code == 0
    (told,) = report["preconditions"]
    assert "l differs on drawn values" in told
    assert "precondition: forget-slopes" in done.err
    assert report["passes"][0]["verdict"] == "passed"


def test_a_precondition_is_an_error_if_strict(run):
    assert run("--strict")[0].code == 4


def test_a_precondition_can_be_waived(run):
    waivers = [{"pass": "ForgetSlopes", "reason": "never below 0"}]
    done, report = run("--strict", waivers=waivers)
    assert done.code == 0
    assert "waived: never below 0" in report["preconditions"][0]


def test_generated_inputs_refuse_it(run):
    assert run(given=False)[0].code == 1


# Real networks whose outputs do not notice that activations are lost: the gate does.


LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
PASS = '''
from onnx_passes import passes
from onnx_passes.passes.base import RewriteRulePass, Transformation

@passes.verify.{contract}
@passes.register("lose-activations")
class LoseActivations(Transformation, RewriteRulePass):
    """Replace the first activations by nothing."""

    left = iter(range({applications}))

    def pattern(self, op, x):
        return op.Relu(x)

    def check(self, context, **_):
        return next(self.left, None) is not None

    def rewrite(self, op, x):
        return op.Identity(x)
'''


@each_of(
    "network, applications, contract",
    ("squeezenet", 1, "tolerance"),
    pytest.param("squeezenet", 26, "tolerance", marks=pytest.mark.slow),
    ("squeezenet", 1, "equality"),
    pytest.param("shufflenet", 99, "tolerance", marks=pytest.mark.slow),
    pytest.param("vgg19", 99, "tolerance", marks=pytest.mark.slow),
    pytest.param("inception_v1", 99, "tolerance", marks=pytest.mark.slow),
    pytest.param("resnet50", 99, "equality", marks=pytest.mark.slow),
)
def test_a_lost_activation_fails_if_outputs_agree(cli, write, network, applications, contract):
    write("losing.py", PASS.format(applications=applications, contract=contract))
    write("losing.yaml", "imports: [losing]\npasses: [lose-activations]\n")
    given = ("-s", "limits.reproducer_seconds=0")
    model = LIGHT / f"light_{network}.onnx"
    end = cli("-c", "losing.yaml", "-o", "o.onnx", *given, model)
    end.tells(1, "lose-activations", ": Relu → ")
