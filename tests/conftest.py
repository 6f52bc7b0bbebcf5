"""What holds for every test, and the summary of what became of onnx's backend test models."""

import gc
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from functools import lru_cache
from pathlib import Path

import onnx_ir as ir
import pytest
from hypothesis import settings

from onnx_passes.certifying.models.recipe import Recipe
from tests.warm_children import START_ANEW, WarmPopen

# Each run draws the same examples, and a busy machine fails no test.
settings.register_profile("the same everywhere", deadline=None, derandomize=True)
settings.load_profile("the same everywhere")

LOG = pytest.StashKey[Path]()
COLD = ("tests/runtime/", "tests/cli/test_supervision.py", "tests/cli/test_deferred.py")
"""Tests of how children start and end: these begin as a user's do."""


@pytest.fixture
def graph():
    """Build a model from ONNX text: inputs, outputs, nodes."""

    def build(inputs, outputs, nodes, opset=18):
        header = f'<ir_version: 10, opset_import: ["" : {opset}]>'
        return ir.from_onnx_text(f"{header}\ng ({inputs}) => ({outputs}) {{ {nodes} }}")

    return build


@pytest.fixture(autouse=True, scope="session")
def reproducers_go_to_a_folder_of_their_own(tmp_path_factory):
    """Keep failures that tests provoke out of the checkout."""
    from onnx_passes.configs.schema import PipelineConfig

    field = PipelineConfig.model_fields["reproducers"]
    field.default = str(tmp_path_factory.mktemp("reproducers"))
    PipelineConfig.model_rebuild(force=True)


_built = lru_cache(1000)(Recipe.proto)


@pytest.fixture
def random_models_are_kept(monkeypatch):
    """Build each random model once for all passes and presets: that is half of the time."""
    monkeypatch.setattr(Recipe, "proto", _built)


@pytest.fixture(autouse=True, scope="session")
def all_passes_are_imported():
    """Import the library before a test replaces the registry's tables for a while."""
    from onnx_passes.passes import registry

    registry.discover()


@pytest.fixture
def own_registry(monkeypatch):
    """The passes of the library; what a test registers is gone after it."""
    from onnx_passes.passes import registry

    registry.discover()
    monkeypatch.setattr(registry, "_shadowing", {})
    monkeypatch.setattr(registry, "_groups", {k: [*v] for k, v in registry._groups.items()})
    monkeypatch.setattr(registry, "_passes", dict(registry._passes))


@pytest.fixture
def children_end():
    """End the processes that engines start, after a test."""
    from onnx_passes.runtime.isolated import end_children

    yield
    end_children()


@pytest.fixture
def gpu(monkeypatch, tmp_path):
    """Stand in for NVIDIA's driver; nothing is executed on it."""
    from tests.runtime.tensorrt import fake_gpu

    control = fake_gpu.plug_in(monkeypatch, tmp_path)
    if control is None:
        pytest.skip("there is no C compiler to make the fake driver with")
    yield control
    monkeypatch.undo()
    fake_gpu.forget()


def pytest_sessionstart():
    gc.disable()  # what is collected as tests stays


def pytest_collection_finish():
    # Or each full collection would go through half a million objects of the test modules.
    gc.freeze()
    gc.set_threshold(10_000)
    gc.enable()


def pytest_runtest_setup(item):
    warm = sys.platform == "linux" and item.get_closest_marker("cold") is None
    subprocess.Popen = WarmPopen if warm and not item.nodeid.startswith(COLD) else START_ANEW
    from onnx_passes.runtime.tensorrt.bindings import install_help, installed_version
    from onnx_passes.runtime.tensorrt.cuda import gpu_missing

    wanted = item.get_closest_marker("tensorrt") is not None
    if wanted and installed_version("tensorrt-rtx") is None:
        pytest.skip(f"tensorrt-rtx is not installed: {install_help('tensorrt-rtx')}")
    if item.get_closest_marker("gpu") is not None and (why := gpu_missing()) is not None:
        pytest.skip(f"nothing can be executed here: {why}")


def pytest_configure(config):
    shared = getattr(config, "workerinput", {}).get("corpus_log")
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A script's background job is started so, and what tests start would inherit it.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    config.stash[LOG] = Path(shared or tempfile.mkdtemp(prefix="onnx-passes-corpus-"))


def pytest_unconfigure(config):
    if not hasattr(config, "workerinput"):
        shutil.rmtree(config.stash[LOG], ignore_errors=True)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node):
    # The workers of pytest-xdist write to the folder that the summary reads.
    node.workerinput["corpus_log"] = str(node.config.stash[LOG])


@pytest.fixture
def corpus_log(request):
    """Note what became of a model under a pipeline."""
    path = request.config.stash[LOG] / f"{os.getpid()}.jsonl"

    def log(pipeline, outcome, model_id):
        with path.open("a") as file:
            file.write(json.dumps([pipeline, outcome, model_id]) + "\n")

    return log


def pytest_terminal_summary(terminalreporter, config):
    lines = [
        json.loads(line)
        for path in sorted(config.stash[LOG].glob("*.jsonl"))
        for line in path.read_text().splitlines()
    ]
    if not lines:
        return
    terminalreporter.section("backend test models of the onnx package")
    for pipeline in dict.fromkeys(line[0] for line in lines):
        outcomes = Counter(outcome for p, outcome, _ in lines if p == pipeline)
        terminalreporter.write_line(f"{pipeline}: {outcomes.total()} models")
        for outcome, count in outcomes.most_common():
            terminalreporter.write_line(f"  {count:5}  {outcome}")
