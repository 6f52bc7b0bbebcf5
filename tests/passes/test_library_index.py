"""The index of the pass library, which says what a pipeline has to import."""

import os
import subprocess
import sys
from pathlib import Path

from onnx_passes import library_index
from tests.tables import each_of

ROOT = Path(__file__).parents[2]


def python(code, **environment):
    """Run code in a process of its own, where no test has imported all passes."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_the_index_is_in_step_with_the_sources():
    code = (
        "from onnx_passes import library_index as index\n"
        "from onnx_passes.passes import registry\n"
        "passes = [c for c in registry.all_passes() if registry.is_shipped(c)]\n"
        "text = index.index_text(passes, registry.registered_groups())\n"
        "print(text == index.FILE.read_text('utf-8'))"
    )
    assert python(code) == ["True"], "run `make docs`"


def test_a_pipeline_imports_the_passes_that_it_names_alone():
    code = (
        "import sys\n"
        "from onnx_passes.passes.registry import collect\n"
        "collect(['fold-constants', 'remove-unused'])\n"
        "print(*(n for n in sys.modules if n.startswith('onnx_passes.passes.fusion')))\n"
        "print('onnx_passes.passes.folding.fold_constants' in sys.modules)"
    )
    assert python(code) == ["True"]


def test_fusions_whose_operators_a_model_lacks_are_not_imported():
    code = (
        "import sys\n"
        "from onnx_passes import testing\n"
        "from onnx_passes.passes.fusion.fuse_all import FuseAll\n"
        "FuseAll()(testing.parse('(float[2] x) => (float[2] y) { y = Relu(x) }'))\n"
        "print(*(n.rpartition('.')[2] for n in sys.modules if '.passes.fusion.fuse' in n))"
    )
    assert python(code) == ["fuse_all"]


def test_the_index_knows_what_rules_need():
    index = library_index.read_index()
    gelu = {("", name) for name in ("Div", "Erf", "Add", "Mul")}
    assert index.may_match("fuse-gelu", gelu)
    assert not index.may_match("fuse-gelu", gelu - {("", "Erf"), ("", "Tanh")})
    assert index.may_match("fold-constants", set())  # no rules: it may do anything
    assert index.may_match("no-such-pass", set())


def test_a_group_has_the_same_order_whatever_was_imported_before():
    names = ("fuse", "cleanup", "remove-unused")
    shown = f"print(*(c.name for name in {names} for c in registry.lookup(name)))"
    start = "from onnx_passes.passes import registry\n"
    one = python(f"{start}{shown}")
    two = python(f"{start}registry.lookup('merge-clips'); registry.lookup('reorder'); {shown}")
    all_first = python(f"{start}registry.discover(); {shown}")
    assert one == two == all_first


@each_of("text", None, '{"modules": [], "passes": {}, "groups": {}}')
def test_without_an_index_or_with_that_of_other_modules_all_passes_are_found(tmp_path, text):
    path = tmp_path / "index.json"
    if text is not None:
        path.write_text(text)
    code = (
        "from pathlib import Path\n"
        "from onnx_passes import library_index\n"
        "from onnx_passes.passes import registry\n"
        f"library_index.FILE = Path({str(path)!r})\n"
        "print(library_index.read_index(), registry.lookup('merge-clips')[0].name)"
    )
    assert python(code) == ["None", "merge-clips"]


def test_a_pass_that_the_index_lacks_is_found(tmp_path):
    code = (
        "import json\n"
        "from pathlib import Path\n"
        "from onnx_passes import library_index\n"
        "from onnx_passes.passes import registry\n"
        "found = json.loads(library_index.FILE.read_text())\n"
        "del found['passes']['eliminate.merge_slices']\n"
        "for group in found['groups'].values():\n"
        "    if 'MergeSlices' in group: group.remove('MergeSlices')\n"
        f"library_index.FILE = Path({str(tmp_path / 'index.json')!r})\n"
        "library_index.FILE.write_text(json.dumps(found))\n"
        "print(registry.lookup('merge-slices')[0].name)"
    )
    assert python(code) == ["merge-slices"]


def test_a_pass_of_a_users_module_wins_before_the_library_is_imported(tmp_path):
    (tmp_path / "mine.py").write_text(
        "from onnx_passes import passes\n"
        "from onnx_passes.passes.base import Transformation\n"
        "@passes.register('remove-unused')\n"
        "@passes.register()\n"
        "class MergeClips(Transformation):\n"
        "    def call(self, model): ...\n"
    )
    code = (
        "from onnx_passes.passes import registry\n"
        "with registry.for_pipeline():\n"
        "    import mine\n"
        "scope = registry.Scope(['mine'])\n"
        "print(registry.lookup('merge-clips', scope=scope)[0].__module__)\n"
        "print(registry.lookup('merge-clips')[0].__module__)\n"
        "print(registry.lookup('remove-unused')[-1].__module__)"
    )
    found = python(code, PYTHONPATH=os.pathsep.join([str(tmp_path), str(ROOT)]))
    assert found == ["mine", "onnx_passes.passes.fusion.merge_clips", "mine"]


def test_the_index_says_of_passes_what_they_say_themselves():
    code = (
        "from onnx_passes.cli.pass_commands import pass_rows\n"
        "from onnx_passes.library_index import library_index\n"
        "rows, index = list(pass_rows()), library_index()\n"
        "groups = index.groups.items()\n"
        "names = {n for n, found in groups if n not in index.places or found[1:]}\n"
        "from onnx_passes.cli.pass_descriptions import describe_passes\n"
        "from onnx_passes.passes import registry\n"
        "print(rows == describe_passes(registry.LIBRARY), names == set(registry.groups()))"
    )
    assert python(code) == ["True", "True"]
