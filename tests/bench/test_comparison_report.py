import re

from onnx_passes.bench.comparison_report import compare_page
from onnx_passes.bench.runs.results import FirstDifference, Found, Pair, Run
from onnx_passes.verify.evidence import OutputCheck
from tests.tables import each_of


def checked(name, error, *, passed):
    return OutputCheck(
        name,
        passed,
        max_abs=error,
        worst=(0, 1),
        expected="1.0",
        actual=str(1 + error),
        mismatched=0 if passed else 3,
        size=8,
        atol=1e-3,
        limit=1e-3,
    )


def found_of(*checks, first=None):
    runs = [
        Run("old", "old", "e", makers={"late": "Conv 'conv'", "early": "Add 'add'"}),
        Run("new", "new", "e"),
    ]
    return Found(runs=runs, pairs=[Pair("old", "new", "simple", list(checks), 1, first)])


def places(page):
    return re.findall(r'data-label="Place"[^>]*>(\d+)<', page)


def test_values_are_sorted_by_error_and_keep_their_place_in_the_model():
    small, late = checked("early", 1e-5, passed=True), checked("late", 0.5, passed=False)
    page = compare_page(
        found_of(
            small,
            checked("equal", 0.0, passed=True),
            late,
            first=FirstDifference(late, 0, "Conv 'conv'"),
        )
    )
    assert places(page) == ["3", "1", "2"]
    assert "Equal bit for bit: 1 value." in page
    assert "First to differ, in topological order: late, made by Conv" in page
    assert "DIFFERS" in page


@each_of(
    "found, head",
    (found_of(checked("y", 0.0, passed=True)), "AGREES"),
    (found_of(checked("y", 1.0, passed=False)), "DIFFERS"),
    (Found(runs=[Run("old", "old", "e")]), "NOT COMPARED"),
)
def test_the_verdict_stands_first(found, head):
    assert f"<title>{head}: " in compare_page(found)


def test_names_of_a_model_are_never_markup():
    assert "<b>" not in compare_page(found_of(checked("<b>x</b>", 1.0, passed=False)))
