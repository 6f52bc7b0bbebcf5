"""Kinds of evidence: which verify, how they rank, how they are counted."""

from onnx_passes.verify.evidence import Evidence, Kind, count_kinds, weakest


def test_outputs_that_cannot_see_a_change_verify_nothing():
    assert [kind for kind in Kind if kind.verifies] == [
        Kind.PROVED,
        Kind.EXECUTED,
        Kind.OUTPUTS_ONLY,
    ]


def test_nothing_to_vouch_for_is_proved():
    assert weakest([]) is Kind.PROVED


def test_applications_are_counted_and_a_part_without_a_record_is_one():
    found = count_kinds(
        [
            Evidence("add-0", Kind.EXECUTED, (1, 2, 5)),
            Evidence("Relu -> nothing", Kind.EXECUTED),
            Evidence("mul-1", Kind.BLIND, (3,)),
        ]
    )
    assert found == {Kind.EXECUTED: 4, Kind.BLIND: 1}
