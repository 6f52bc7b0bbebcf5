"""What every pass of the library owes its user."""

import inspect
from functools import cache
from pathlib import Path

import pytest

from onnx_passes.certifying.models import recipes
from onnx_passes.certifying.models.recipe import recipes_on
from onnx_passes.cli.pass_descriptions import option_docs, option_rows
from onnx_passes.errors import OnnxPassesError
from onnx_passes.model.copy import copy_model
from onnx_passes.model.walk import all_graphs
from onnx_passes.passes.annotation.shape_inference import infer_shapes
from onnx_passes.passes.base import Analysis, Annotation, is_shipped
from onnx_passes.passes.options import pipeline_name
from onnx_passes.passes.registry import all_passes
from onnx_passes.verify.snapshot import Change, Snapshot
from tests.tables import each_row

ROOT = Path(__file__).parents[2]
LIBRARY = [cls for cls in all_passes() if is_shipped(cls)]
VERBS = {
    *("Add", "Annotate", "Apply", "Check", "Choose", "Convert", "Count", "Find", "Fold"),
    *("Fuse", "Infer", "Inline", "Lower", "Merge", "Move", "Quantize", "Raise", "Remove"),
    *("Rename", "Replace", "Report", "Round", "Scale", "Simplify", "Sort"),
}
"""What a pass does to a model, each in the word that other compilers have for it."""


@pytest.fixture(params=LIBRARY, ids=lambda cls: cls.name)
def cls(request):
    return request.param


def test_the_library_is_found():
    assert len(LIBRARY) >= 15


def test_module_class_and_pipeline_name_agree(cls):
    module = cls.__module__.rpartition(".")[2]
    assert cls.name == pipeline_name(cls.__name__) == module.replace("_", "-")


def test_declares_a_contract(cls):
    assert issubclass(cls, Analysis) or cls.contracts()


def test_docstring_has_the_headings(cls):
    text = inspect.getdoc(cls) or ""
    summary, _, rest = text.partition("\n")
    assert summary.endswith(".")
    wanted = ["Before:", "After:", "Sound because", "Leaves alone:"]
    if issubclass(cls, Analysis):
        wanted = ["Finds:"]
    elif issubclass(cls, Annotation) and "Before:" not in rest:
        wanted = ["Adds:"]
    assert not [heading for heading in wanted if heading not in rest]


def test_summary_begins_with_a_standard_verb(cls):
    assert (inspect.getdoc(cls) or "").split(maxsplit=1)[0] in VERBS


def test_every_option_is_described(cls):
    described = option_docs(cls)
    assert [name for name, _, _ in option_rows(cls) if name not in described] == []


def test_has_a_test_beside_its_mirror(cls):
    parts = cls.__module__.split(".")[1:]
    path = ROOT.joinpath("tests", *parts[:-1], f"test_{parts[-1]}.py")
    assert path.is_file(), f"write {path.relative_to(ROOT)}"


def test_has_a_page_in_the_docs(cls):
    page = ROOT / "docs" / "passes" / f"{cls.name}.md"
    assert page.is_file(), "run `make docs`"


@pytest.mark.usefixtures("random_models_are_kept")
def test_says_so_when_it_changes_a_model(cls):
    for recipe in recipes(4, seed=5):
        model = recipe.model()
        pass_, before = cls(**cls.example), Snapshot(model)
        try:
            result = pass_.call(model)
        except (OnnxPassesError, NotImplementedError):
            continue
        assert result.modified or before.change(result.model) is Change.NONE, str(recipe)


@cache
def inferred(recipe):
    """Return a model with shapes, and these: most passes are given the same models."""
    model = recipe.model()
    return model, shapes(model)


def shapes(model):
    infer_shapes(model)
    values = (v for graph in all_graphs(model) for node in graph for v in node.outputs)
    return {v.name: v.shape.numpy() for v in values if v.shape and v.shape.is_static()}


def test_what_keeps_shapes_leaves_values_the_shapes_that_they_have(cls):
    if not cls(**cls.example).keeps_shapes or issubclass(cls, Annotation):
        return
    for recipe in recipes_on(cls.tested_on, 4, seed=5):
        original, before = inferred(recipe)
        model, pass_ = copy_model(original), cls(**cls.example)
        try:
            pass_(model)
        except (OnnxPassesError, NotImplementedError):
            continue
        for value in (v for g in all_graphs(model) for node in g for v in node.outputs):
            value.shape = None
        after = shapes(model)
        differ = {n for n in before.keys() & after.keys() if before[n] != after[n]}
        assert not differ, str(recipe)


@each_row("""name | wanted
- MergeClips | merge-clips
- RL2Norm | rl2-norm
- FuseGELU | fuse-gelu
""")
def test_words_of_a_class_name_end_at_a_capital_or_a_digit(name, wanted):
    assert pipeline_name(name) == wanted
