"""What the certificates of a pass say, and when they are stale."""

import importlib
import json
import sys
from pathlib import Path

import pytest

from onnx_passes.certifying import certificates
from onnx_passes.certifying.certificates import (
    FILE,
    Keys,
    certificate,
    check_certificate,
    read_certificates,
    write_certificate,
)
from onnx_passes.certifying.definitions import Definitions
from onnx_passes.errors import UsageError, VerificationError
from onnx_passes.ops.elementwise import Add
from onnx_passes.passes.eliminate.eliminate_identity import EliminateIdentity
from onnx_passes.passes.registry import all_passes

ROOT = Path(__file__).parents[2]
SIZES = {"everywhere": True, "conditions": []}
PROVED = {
    "rule": "p[0]",
    "verdict": "proved",
    "reason": "",
    "contract": "equality",
    "folder": "/x",
    "tested": {
        "models": 200,
        "firings": 219,
        "operators": ["Add", "Identity"],
        "dtypes": {"float": 190, "int8": 10},
        "opsets": {"9": 100, "18": 100},
        "errors": {"float32": {"rtol": 1.2e-7}},
    },
    "proof": {
        "templates": 24,
        "judgements": [
            {"arithmetic": "real", "outcome": "proved", "coverage": SIZES},
            {
                "arithmetic": "ieee",
                "outcome": "proved",
                "coverage": {"everywhere": False, "conditions": []},
            },
            {"arithmetic": "int", "outcome": "not applicable", "coverage": None},
        ],
    },
}
TESTED = {
    "rule": "p[1]",
    "verdict": "tested",
    "reason": "z3 gave up",
    "assumes": "no input is NaN or infinite",
    "tested": {
        "models": 1,
        "firings": 1,
        "operators": ["Relu"],
        "dtypes": {"float": 1},
        "opsets": {"26": 1},
    },
}
WHOLE = {
    "rule": "p",
    "verdict": "tested",
    "reason": "",
    "tested": {"models": 199, "changed": 53, "refused": 0},
}


def lines(*results, cls=EliminateIdentity):
    return certificate(cls, "p", results, {"models": 100}, Keys())


def check(known, cls=EliminateIdentity):
    return check_certificate(cls, "p", {"p": known}, Keys())


def test_a_line_says_what_was_found_and_no_more():
    (line,) = lines(PROVED)
    assert "folder" not in line
    del line["key"], line["digest"]
    assert line == {
        "pass": "p",
        "rule": "p[0]",
        "verdict": "proved",
        "claim": "real: all sizes; ieee: its own sizes",
        "contract": "equality",
        "asked": 100,
        "models": 200,
        "firings": 219,
        "opsets": [9, 18],
        "types": ["float", "int8"],
        "error": 1.2e-7,
        "templates": 24,
        "operators": ["Add", "Identity"],
    }


def test_lines_are_kept_by_pass_in_one_file(tmp_path):
    other = certificate(EliminateIdentity, "q", [PROVED], {"models": 100}, Keys())
    write_certificate("q", other, tmp_path)
    path = write_certificate("p", lines(PROVED, TESTED), tmp_path)
    written = [json.loads(text) for text in path.read_text().splitlines()]
    assert [line["pass"] for line in written] == ["p", "p", "q"]
    write_certificate("p", lines(TESTED), tmp_path)
    assert read_certificates(tmp_path) == {"p": lines(TESTED), "q": other}


@pytest.mark.parametrize("text", ["{", "[]", "3", '{"rule": "x"}', "\x00"])
def test_a_line_that_is_no_certificate_is_named(tmp_path, text):
    write_certificate("p", lines(PROVED), tmp_path)
    with (tmp_path / FILE).open("a") as stream:
        stream.write(f"{text}\n")
    with pytest.raises(VerificationError, match="line 2 is not a certificate"):
        read_certificates(tmp_path)


def test_a_file_that_is_no_text_is_refused(tmp_path):
    (tmp_path / FILE).write_bytes(b"\xff\xfe")
    with pytest.raises(VerificationError, match="cannot read"):
        read_certificates(tmp_path)


def test_another_verifier_makes_it_stale(monkeypatch):
    known = lines(PROVED)
    monkeypatch.setattr(certificates, "VERIFIER", certificates.VERIFIER + 1)
    assert check(known) == ("the rule verifier has changed since",)


def test_another_verifier_of_rules_says_nothing_of_passes_on_random_models(monkeypatch):
    known = lines(WHOLE)
    monkeypatch.setattr(certificates, "VERIFIER", certificates.VERIFIER + 1)
    assert check(known) == ()
    monkeypatch.setattr(certificates, "ON_MODELS", certificates.ON_MODELS + 1)
    assert check(known) == ("the rule verifier has changed since",)


@pytest.mark.parametrize(("changed", "stale"), [("Add", True), ("Mul", False)])
def test_the_description_of_an_operator_that_its_models_had_counts(
    monkeypatch, changed, stale
):
    known = lines(PROVED, TESTED)
    key = Definitions.key
    monkeypatch.setattr(
        Definitions,
        "key",
        lambda self, module, name: "another" if name == changed else key(self, module, name),
    )
    assert Add.__name__ == "Add"
    reasons = ("the description of an operator of its models has changed since",)
    assert check(known) == (reasons if stale else ())


def test_the_body_of_an_operator_is_a_part_of_its_description(monkeypatch):
    quantiser = {
        **PROVED,
        "tested": {**PROVED["tested"], "operators": ["qonnx.custom_op.general:Trunc"]},
    }
    known = lines(quantiser)
    key = Definitions.key
    monkeypatch.setattr(
        Definitions,
        "key",
        lambda self, module, name: "another" if name == "trunc" else key(self, module, name),
    )
    assert check(known) == ("the description of an operator of its models has changed since",)


@pytest.mark.parametrize("verdict", ["undecided", "never fired"])
def test_what_was_not_judged_is_refused(verdict):
    known = lines({**TESTED, "verdict": verdict, "reason": "out of time: 3 models"})
    with pytest.raises(VerificationError, match=rf"p\[1\] is {verdict}: out of time"):
        check(known)


def test_a_pass_that_changed_no_random_model_is_stale():
    known = lines({**WHOLE, "verdict": "never fired", "tested": {"changed": 0, "models": 100}})
    (reason,) = check(known)
    assert "changed none of the random models" in reason


def test_a_refutation_is_never_accepted():
    with pytest.raises(VerificationError, match="certified to be wrong"):
        check(lines({**PROVED, "verdict": "refuted"}))


def test_a_class_without_a_file_is_refused():
    with pytest.raises(UsageError, match="no source file"):
        lines(PROVED, cls=int)


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project of a pass, a helper behind a package, a helper of that, and a bystander."""
    folder = tmp_path / "fresh_project"
    (folder / "inner").mkdir(parents=True)
    files = {
        "__init__.py": "from fresh_project import bystander\n",
        "bystander.py": "ONE = 1\n",
        "inner/__init__.py": "from fresh_project.inner.near import near\n",
        "inner/near.py": "def near():\n    from . import far\n    return far.LIMIT\n",
        "inner/far.py": "LIMIT = 1\n",
        "made.py": "from fresh_project.inner import near\n\nclass Made:\n    use = near\n",
    }
    for name, text in files.items():
        (folder / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    yield folder
    for name in [n for n in sys.modules if n.partition(".")[0] == "fresh_project"]:
        del sys.modules[name]


@pytest.mark.parametrize(
    ("changed", "old", "new", "stale"),
    [
        ("made.py", "use", "used", True),
        ("inner/near.py", "far.LIMIT", "far.LIMIT + 1", True),
        ("inner/far.py", "LIMIT = 1", "LIMIT = 2", True),
        ("inner/far.py", "LIMIT = 1", "LIMIT = 1\nOTHER = 2", False),
        ("bystander.py", "ONE = 1", "ONE = 2", False),
    ],
)
def test_a_project_of_its_own_is_followed(project, changed, old, new, stale):
    cls = importlib.import_module("fresh_project.made").Made
    known = lines(PROVED, cls=cls)
    path = project / changed
    path.write_text(path.read_text().replace(old, new))
    assert check(known, cls) == (("the code of p has changed since",) if stale else ())


def test_a_script_is_followed_to_the_modules_beside_it(tmp_path, monkeypatch):
    (tmp_path / "beside_a_script.py").write_text("LIMIT = 1\n")
    (tmp_path / "a_lone_script.py").write_text(
        "from beside_a_script import LIMIT\n\nclass Made:\n    limit = LIMIT\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    cls = importlib.import_module("a_lone_script").Made
    known = lines(PROVED, cls=cls)
    assert check(known, cls) == ()
    (tmp_path / "beside_a_script.py").write_text("LIMIT = 2\n")
    assert check(known, cls) == ("the code of p has changed since",)


def test_the_summary_says_what_was_done_and_no_more(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs")
    summary = importlib.import_module("certificate_texts").summary
    assert summary(lines(PROVED, TESTED)) == (
        "**proved 1, tested 1** (2 rules); proofs on 24 templates for all sizes; property "
        "test with 220 firings on 201 models of opsets 9 to 26 and 2 element types; largest "
        "error 1e-07 of the largest element; finite inputs only"
    )
    undecided = {"rule": "r", "verdict": "undecided", "reason": "it hangs"}
    assert summary(lines(undecided)) == "**undecided** (1 rule)"
    assert summary(lines(WHOLE)) == "**tested** on 199 random models; it changed 53"


def test_the_library_has_a_line_for_each_rule_in_a_small_file():
    from onnx_passes.cli.certify_command import targets_of

    known = read_certificates(ROOT / "certificates")
    library = [cls for cls in all_passes() if cls.__module__.startswith("onnx_passes.")]
    targets = [t for t in targets_of(library, None, everything=False) if not t.by_metrics]
    assert {t.name: len(known.get(t.name, ())) for t in targets} == {
        t.name: 1 if t.rules is None else t.rules for t in targets
    }
    assert known.keys() == {t.name for t in targets}
    assert (ROOT / "certificates" / FILE).stat().st_size < 400_000
