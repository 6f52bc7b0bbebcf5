"""Which edits make a pass another one."""

import importlib
import sys

import pytest

from onnx_passes.errors import ModelError
from onnx_passes.pipeline.sources import Sources

MODULE = """
from onnx_passes import passes
from onnx_passes.passes.base import Transformation
import sources_helper

LIMIT = 1

class First(Transformation):
    def call(self, model):
        return LIMIT

class Second(Transformation):
    def call(self, model):
        return 2

class Third(Transformation):
    def call(self, model):
        return Second
"""


@pytest.fixture
def digests(tmp_path, monkeypatch):
    """Return digests of the three passes, after some text of a file was replaced."""
    monkeypatch.syspath_prepend(tmp_path)
    given = {"sources_subject": MODULE, "sources_helper": "def help_out(): return 1\n"}
    for name, text in given.items():
        (tmp_path / f"{name}.py").write_text(text)
    importlib.invalidate_caches()
    module = importlib.import_module("sources_subject")

    def edit(name="sources_subject", old="", new=""):
        (tmp_path / f"{name}.py").write_text(
            given[name].replace(old, new) if old else given[name]
        )
        sources = Sources()
        return [sources.of(cls) for cls in (module.First, module.Second, module.Third)]

    yield edit
    for name in given:
        sys.modules.pop(name, None)


@pytest.mark.parametrize(
    ("edit", "changed"),
    [
        (("sources_subject", "return LIMIT", "return -LIMIT"), [True, False, False]),
        (("sources_subject", "return 2", "return 3"), [False, True, True]),
        (("sources_subject", "LIMIT = 1", "LIMIT = 5"), [True, True, True]),
        (("sources_helper", "1", "2"), [True, True, True]),
        (("sources_subject", "LIMIT = 1", "LIMIT = 1  # one"), [False, False, False]),
    ],
)
def test_an_edit_counts_for_the_passes_that_it_can_reach(digests, edit, changed):
    before = digests()
    assert [a != b for a, b in zip(before, digests(*edit), strict=True)] == changed


def test_a_file_newer_than_the_run_is_not_what_ran(digests):
    digests()
    cls = sys.modules["sources_subject"].First
    with pytest.raises(ModelError, match="has changed since the run began"):
        Sources(since=0.0).of(cls)


def test_a_class_without_a_file_is_refused():
    made = type("Made", (), {"__module__": "nowhere"})
    with pytest.raises(ModelError, match="is in no file"):
        Sources().of(made)
