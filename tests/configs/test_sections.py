from datetime import date

from onnx_passes.configs.sections import WaiverSection, find_waivers
from tests.tables import each_of

TODAY = date(2026, 11, 22)
OF_PASS = WaiverSection(**{"pass": "merge-relus"}, reason="known")
OF_RULE = WaiverSection(rule="drop-relu", reason="known")


def found(waivers, pass_name="merge-relus", rules=(), model="model.onnx"):
    return next(iter(find_waivers(waivers, pass_name, rules, model, TODAY)), None)


@each_of("name", "merge-relus", "MergeRelus", "merge_relus", "merge-relus{limit=3}")
def test_a_pass_is_found_however_its_name_is_written(name):
    assert found([OF_PASS], name) is OF_PASS


def test_a_waiver_of_another_pass_accepts_nothing():
    assert found([OF_PASS], "merge-clips", ["merge-relus"]) is None
    assert found([], "merge-relus") is None


def test_each_rule_that_is_to_blame_needs_a_waiver():
    other = WaiverSection(rule="DropClip", reason="known as well")
    rules = ["drop-relu", "drop-clip"]
    both = find_waivers([other, OF_RULE], "p", rules, "model.onnx", TODAY)
    assert both == (OF_RULE, other)


@each_of(
    "pattern, model, covered",
    ("*", "a/b.onnx", True),
    ("bert-*.onnx", "models/bert-base.onnx", True),
    ("bert-*.onnx", "models/gpt.onnx", False),
    ("models/*", "models/gpt.onnx", False),
    ("Bert.onnx", "bert.onnx", False),
)
def test_the_pattern_is_one_of_file_names(pattern, model, covered):
    waiver = OF_PASS.model_copy(update={"model": pattern})
    assert (found([waiver], model=model) is waiver) == covered


@each_of(
    "expires, counts", (None, True), (date(2026, 11, 22), True), (date(2026, 11, 21), False)
)
def test_a_waiver_counts_up_to_its_last_day(expires, counts):
    waiver = OF_PASS.model_copy(update={"expires": expires})
    assert (found([waiver]) is waiver) == counts
