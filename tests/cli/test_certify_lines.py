"""What certify prints of verdicts that say less than they may seem to."""

from onnx_passes.cli.certify_command import Target, show_verdicts
from tests.tables import each_of

VERDICT = {"rule": "r", "verdict": "tested", "reason": ""}


@each_of(
    "contract, told",
    (
        "tolerance",
        "supports tolerance where the original is finite (pipelines compare NaN and "
        "infinities, too)\n",
    ),
    ("equality", "supports equality\n"),
)
def test_a_tolerance_is_said_to_leave_out_nan_and_infinities(capsys, contract, told):
    show_verdicts(Target("r", "m:r", 1), [{**VERDICT, "contract": contract}])
    assert capsys.readouterr().out.endswith(told)
