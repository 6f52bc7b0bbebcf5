"""A summary of what became of the models, over all workers of pytest-xdist."""

import json
import os
from collections import Counter
from pathlib import Path

import pytest


def _folder(config):
    root = getattr(config, "workerinput", {}).get("corpus_log")
    return Path(root) if root else config.stash[LOG]


LOG = pytest.StashKey[Path]()


def pytest_configure(config):
    if not hasattr(config, "workerinput"):
        import tempfile

        config.stash[LOG] = Path(tempfile.mkdtemp(prefix="onnx-passes-corpus-"))


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node):
    node.workerinput["corpus_log"] = str(node.config.stash[LOG])


@pytest.fixture
def corpus_log(request):
    path = _folder(request.config) / f"{os.getpid()}.jsonl"

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
