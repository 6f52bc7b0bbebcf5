import json
from pathlib import Path

import pytest

from onnx_passes.verify.rules import certified

PROVED = {
    "verdict": "proved",
    "tested": {
        "models": 200,
        "firings": 219,
        "dtypes": {"float": 190, "int8": 10},
        "opsets": {"9": 100, "18": 100},
        "errors": {"float32": {"rtol": 1.2e-7}},
    },
    "proof": {
        "templates": 24,
        "judgements": [
            {"arithmetic": "real", "outcome": "proved", "coverage": {"everywhere": True}},
            {"arithmetic": "ieee", "outcome": "proved", "coverage": {"everywhere": False}},
        ],
    },
}
TESTED = {
    "verdict": "tested",
    "assumes": "no input is NaN or infinite",
    "tested": {"models": 1, "firings": 1, "dtypes": {"float": 1}, "opsets": {"26": 1}},
    "proof": None,
}


@pytest.mark.parametrize(
    ("rules", "word"),
    [
        ([PROVED], "proved"),
        ([TESTED, PROVED, PROVED], "proved 2, tested 1"),
        ([TESTED, {"verdict": "never fired"}], "tested 1, never fired 1"),
    ],
)
def test_the_level_names_the_weakest_too(rules, word):
    assert certified.level({"rules": rules}) == word


def test_the_line_says_what_was_done_and_no_more():
    assert certified.line({"rules": [PROVED, TESTED]}) == (
        "**proved 1, tested 1** (2 rules); proofs on 24 templates for all sizes; property "
        "test with 220 firings on 201 models of opsets 9 to 26 and 2 element types; largest "
        "error 1e-07 of the largest element; finite inputs only"
    )
    assert certified.line({"rules": [{"verdict": "undecided", "reason": "it hangs"}]}) == (
        "**undecided** (1 rule)"
    )


def test_certificates_are_read_by_pass(tmp_path: Path):
    (tmp_path / "one.json").write_text(json.dumps({"rules": []}))
    assert certified.read_certificates(tmp_path) == {"one": {"rules": []}}


def test_a_pass_that_is_no_rule_is_told_by_what_it_changed():
    whole = {"verdict": "tested", "tested": {"models": 199, "changed": 53, "refused": 0}}
    told = certified.line({"rules": [whole]})
    assert told == "**tested** on 199 random models, of which it changed 53"
