import importlib
import json
import sys

import pytest

from onnx_passes.errors import UsageError, VerificationError
from onnx_passes.passes.eliminate.eliminate_identity import EliminateIdentity
from onnx_passes.passes.eliminate.eliminate_noop_reshape import EliminateNoopReshape
from onnx_passes.verify.rules import certificate as module
from onnx_passes.verify.rules.certificate import (
    certificate,
    check_certificate,
    source_hash,
    write_certificate,
)
from onnx_passes.verify.rules.code import hash_of
from onnx_passes.verify.rules.sources import sources_of, verifier_of

GOOD = {"rule": "r", "verdict": "proved", "reason": "", "disagrees": False, "folder": "/x"}


@pytest.fixture
def issue(tmp_path):
    def make(**changes):
        content = certificate(EliminateIdentity, "p", [{**GOOD, **changes}], {"seed": 0})
        return write_certificate(content, tmp_path)

    return make


def test_a_fresh_certificate_is_accepted(issue, tmp_path):
    content = json.loads(issue().read_text())
    assert check_certificate(EliminateIdentity, "p", tmp_path) == ()
    assert content["source"] == source_hash(EliminateIdentity)
    assert "folder" not in content["rules"][0]


def test_a_missing_one_says_what_to_run(tmp_path):
    with pytest.raises(VerificationError, match="has no certificate") as error:
        check_certificate(EliminateIdentity, "p", tmp_path)
    assert "onnx-passes certify p --write" in str(error.value)


def test_one_edited_by_hand_is_refused(issue, tmp_path):
    path = issue(verdict="tested")
    path.write_text(path.read_text().replace('"tested"', '"proved"'))
    with pytest.raises(VerificationError, match="edited by hand"):
        check_certificate(EliminateIdentity, "p", tmp_path)


@pytest.mark.parametrize("text", ["{", "[]", '{"format": 99}', "\x00"])
def test_what_is_no_certificate_is_refused(tmp_path, text):
    (tmp_path / "p.json").write_text(text)
    with pytest.raises(VerificationError, match=r"cannot read|no certificate"):
        check_certificate(EliminateIdentity, "p", tmp_path)


def test_a_changed_source_makes_it_stale(issue, tmp_path, monkeypatch):
    issue()
    monkeypatch.setattr(module, "source_hash", lambda cls: "another")
    (reason,) = check_certificate(EliminateIdentity, "p", tmp_path)
    assert reason == "the source of p has changed since it was certified"


def test_a_changed_verifier_makes_it_stale(issue, tmp_path, monkeypatch):
    issue()
    monkeypatch.setattr(module, "verifier_hash", lambda results: "another")
    (reason,) = check_certificate(EliminateIdentity, "p", tmp_path)
    assert "the verifier, or what is told of an operator" in reason


def test_one_of_an_older_form_is_stale(issue, tmp_path):
    path = issue()
    content = json.loads(path.read_text())
    del content["digest"], content["verifier"]
    content["format"] = 1
    path.write_text(json.dumps({**content, "digest": module._digest(content)}))
    (reason,) = check_certificate(EliminateIdentity, "p", tmp_path)
    assert "format 1" in reason


def test_an_operator_that_is_added_leaves_certificates_of_its_family_as_they_are(tmp_path):
    file = tmp_path / "family.py"
    one = "class One(Operator):\n    size = SIZE\n"
    file.write_text(f"from a import Operator, Other\nSIZE = 1\n{one}")
    before = hash_of({file: frozenset({"One"})})
    file.write_text(f"from a import Operator\nSIZE = 1\n{one}class Two(One):\n    size = 2\n")
    assert hash_of({file: frozenset({"One"})}) == before
    file.write_text(f"from a import Operator\nSIZE = 3\n{one}")
    assert hash_of({file: frozenset({"One"})}) != before


def test_an_operator_depends_on_what_its_description_reads_of_other_families():
    read = {
        path.name: names for path, names in verifier_of({"QLinearConv"}, rules=True).items()
    }
    assert {"Conv", "conv_cost"} <= read["convolution.py"]
    assert read["integer_products.py"] == {"QLinearConv"}
    assert read["quantization.py"] == {"SCALE", "ZERO"}
    assert read["claims.py"] is None


def test_the_verifier_depends_on_what_is_told_of_the_operators_that_were_seen():
    told = {
        name: [path.name for path in verifier_of({name}, rules=True)]
        for name in ("MatMul", "Relu")
    }
    assert "linear.py" in told["MatMul"]
    assert "linear.py" not in told["Relu"]
    assert "claims.py" in told["Relu"]
    assert "hints.py" in told["Relu"]
    assert "reals.py" in told["Relu"]
    assert not {"certificate.py", "certified.py"} & {*told["Relu"]}
    assert "claims.py" not in [path.name for path in verifier_of({"Relu"}, rules=False)]


@pytest.mark.parametrize("verdict", ["undecided", "never fired"])
def test_what_was_not_judged_is_refused(issue, tmp_path, verdict):
    issue(verdict=verdict, reason="out of time: 3 models")
    with pytest.raises(VerificationError, match=f"not certified: r is {verdict}: out of time"):
        check_certificate(EliminateIdentity, "p", tmp_path)


def test_a_pass_that_changed_no_random_model_is_stale(issue, tmp_path):
    issue(verdict="never fired", tested={"changed": 0, "models": 100})
    (reason,) = check_certificate(EliminateIdentity, "p", tmp_path)
    assert "changed none of the random models" in reason


@pytest.mark.parametrize("change", [{"verdict": "refuted"}, {"disagrees": True}])
def test_a_refutation_is_never_accepted(issue, tmp_path, change):
    issue(**change)
    with pytest.raises(VerificationError, match="certified to be wrong"):
        check_certificate(EliminateIdentity, "p", tmp_path)


def test_a_class_without_a_file_is_refused():
    with pytest.raises(UsageError, match="no source file"):
        source_hash(int)


def test_equal_findings_give_equal_files(issue):
    assert json.loads(issue().read_text()) == json.loads(issue().read_text())


@pytest.fixture
def passes(tmp_path, monkeypatch):
    """A project of a pass, a helper behind a package, a helper of that, and a bystander."""
    folder = tmp_path / "fresh_project"
    (folder / "inner").mkdir(parents=True)
    files = {
        "__init__.py": "from fresh_project import bystander\n",
        "bystander.py": "",
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
    ("changed", "stale"),
    [
        ("made.py", True),
        ("inner/near.py", True),
        ("inner/far.py", True),
        ("bystander.py", False),
    ],
)
def test_a_changed_helper_makes_it_stale_and_a_bystander_does_not(
    passes, tmp_path, changed, stale
):
    cls = importlib.import_module("fresh_project.made").Made
    write_certificate(certificate(cls, "p", [GOOD], {"seed": 0}), tmp_path)
    with (passes / changed).open("a") as stream:
        stream.write("CHANGED = 1\n")
    assert any("source of p" in why for why in check_certificate(cls, "p", tmp_path)) == stale


def test_a_pass_of_the_project_depends_on_its_helpers_and_not_on_the_framework():
    names = [path.name for path in sources_of(EliminateNoopReshape)]
    assert names[0] == "eliminate_noop_reshape.py"
    assert "idle.py" in names
    assert not {"base.py", "driver.py", "__init__.py"} & set(names)
