"""The names that authors of passes import: all are there, or warn for a release."""

import importlib
import re
import warnings
from pathlib import Path

import pytest

from onnx_passes.passes import base
from tests.tables import each_of

PAGE = Path(__file__).parents[2] / "docs" / "python.md"
KINDS = "Analysis Annotation Pass RewriteRulePass RewriteRuleSetPass Transformation"
COMMON = f"{KINDS} MatchContext MatchResult Op Value Var"
STABLE = {
    "onnx_passes.passes": f"{COMMON} MIB Size ComposePass base collect compose constant "
    "is_constant register verify",
    "onnx_passes.passes.base": f"{COMMON} ALL FunctionalPass InterfaceMap PassContext Rule "
    "RewriteRule is_shipped",
    "onnx_passes.passes.verify": "VerificationError accuracy count_mispredictions equality "
    "max_abs_error metric metrics tolerance top_5_accuracy",
    "onnx_passes.ops": "DOMAIN domain inject_custom_ops op register",
    "onnx_passes.testing": "assert_each_application_executed assert_leaves_alone "
    "assert_rewrites assert_verified graph parse",
}
"""Names that a release had. One that leaves its module goes from here a release later."""


@each_of("name", *STABLE)
def test_each_stable_name_is_there_or_says_where_it_went(name):
    module = importlib.import_module(name)
    for stable in STABLE[name].split():
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            getattr(module, stable)
        assert bool(seen) is (stable not in module.__all__), stable
        assert all(w.category is DeprecationWarning for w in seen)
    assert set(module.__all__) <= set(STABLE[name].split())


def test_a_name_that_moved_warns_with_its_new_place():
    with pytest.warns(
        DeprecationWarning, match=r"import it from onnxscript\.rewriter"
    ) as told:
        from onnx_passes.passes.base import RewriteRule
    assert told[0].filename == __file__
    from onnxscript import rewriter

    assert RewriteRule is rewriter.RewriteRule
    with pytest.raises(ImportError):
        from onnx_passes.passes.base import Nothing  # noqa: F401


def test_the_page_lists_them():
    rows = re.findall(r"^\| `([\w.]+)` \| (.*) \|$", PAGE.read_text("utf-8"), re.M)
    told = {name: set(re.findall(r"`(\w+)`", names)) for name, names in rows if "." in name}
    told["onnx_passes.passes"] |= set(COMMON.split())  # "the kinds of pass as in `base`"
    assert told == {name: set(importlib.import_module(name).__all__) for name in STABLE}
    assert set(COMMON.split()) <= set(base.__all__)
