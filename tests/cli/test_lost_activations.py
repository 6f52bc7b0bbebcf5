"""Real networks whose outputs do not notice that activations are lost: the gate does."""

from pathlib import Path

import onnx
import pytest

from tests.tables import each_of

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
def test_a_lost_activation_fails_though_the_outputs_agree(
    cli, write, network, applications, contract
):
    write("losing.py", PASS.format(applications=applications, contract=contract))
    write("losing.yaml", "imports: [losing]\npasses: [lose-activations]\n")
    given = ("-s", "limits.reproducer_seconds=0")
    model = LIGHT / f"light_{network}.onnx"
    end = cli("-c", "losing.yaml", "-o", "o.onnx", *given, model)
    assert end.code == 1, end.out
    assert "lose-activations" in end.err
    assert ": Relu → " in end.err
