from onnx_passes.certifying import (
    Arithmetic,
    ArithmeticVerdict,
    Coverage,
    FloatMode,
    Outcome,
    Proof,
)
from onnx_passes.certifying.proof import merge
from onnx_passes.contracts import Equality


def proof(**outcomes):
    judgements = []
    for arithmetic in Arithmetic:
        outcome = outcomes.get(arithmetic.value, Outcome.NOT_APPLICABLE)
        coverage = Coverage(False, "x[2]") if outcome == Outcome.PROVED else None
        ieee = arithmetic == Arithmetic.IEEE and outcome == Outcome.PROVED
        mode = FloatMode.STRICT if ieee else None
        judgements.append(ArithmeticVerdict(arithmetic, outcome, coverage=coverage, mode=mode))
    return Proof(tuple(judgements))


def test_verdicts_of_templates_of_several_types_are_kept_apart():
    merged = merge(
        [proof(real=Outcome.PROVED, ieee=Outcome.PROVED), proof(int=Outcome.PROVED)]
    )
    assert merged[Arithmetic.INT].outcome == Outcome.PROVED
    assert merged[Arithmetic.IEEE].outcome == Outcome.PROVED
    assert merged[Arithmetic.BOOL].outcome == Outcome.NOT_APPLICABLE
    assert merged.contract == Equality()
    assert merged.templates == 2


def test_an_integer_proof_earns_equality():
    assert proof(int=Outcome.PROVED).contract == Equality()
