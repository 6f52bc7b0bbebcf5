"""The suites of the yardstick: what they hold, and what the program says of each item.

A suite has models and presets. ``judge`` puts one model through one preset and returns what
the program says as plain data. Reports are read by name with defaults, so that this module
also runs on a gate whose reports have other fields. A record holds no times, no paths and no
versions.

``python -m benchmarks.yardstick.suites SECONDS`` reads questions from standard input, a JSON
list a line, and answers each with a line: the record, and the processor time in seconds. A
question that uses more processor time than SECONDS ends the process with SIGPROF.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from benchmarks.speed import half_of
from benchmarks.yardstick.server import serve

Record = dict[str, Any]
Key = tuple[str, str, str]
"""Suite, model and preset."""

ROOT = Path(__file__).parents[2]
SIZES = ("quick", "room", "full")
ALL = sys.maxsize
ABSENT = "*"
"""The only model of a suite whose models are not known, because their file is not there."""

RANDOM = Path(__file__).with_name("random.tar.xz")
"""300 random models as files: their generator may change, and they may not."""
RULES = ROOT / "certificates" / "rules.jsonl"
"""Verdict and claim of each rule: a JSON object a line."""
DIGITS = ROOT / "examples" / "digits"
PAGES = {"tutorial": DIGITS}
"""Pages of the documentation, and the files that their consoles find."""

TINY = {"layers": 2, "hidden": 64, "heads": 4, "ffn": 128, "vocab": 100}
BUILT: dict[str, dict[str, int]] = {
    "transformer": TINY,
    "llama_decoder": {**TINY, "kv_heads": 2},
    "chain": {"nodes": 200},
    "random_graph": {"nodes": 200},
    "vision_transformer": {"layers": 2, "hidden": 64, "heads": 4},
    "resnet50": {},
}
"""Builders of ``benchmarks.models`` and their arguments."""

EXPORTED = (
    *("distilbert", "gru", "branches", "gpt-neo", "phi3-cache", "qwen3", "t5-small"),
    *("deberta", "conformer", "wav2vec2", "rwkv", "mobilevit", "shufflenet", "unet"),
    *("diffusion", "graph", "beam-step", "counts", "half-images", "recommender"),
)
"""Networks of ``benchmarks.export.families``, each by both exporters."""
EXPORTERS = ("torchscript", "dynamo")

EXAMPLES = {
    "break_adds": "-c pipeline.yaml -o broken.onnx model.onnx",
    "break_adds, rollback": "-c pipeline.yaml -s on_failure=rollback -o same.onnx model.onnx",
    "break_adds, digits": "-c pipeline.yaml -o broken.onnx ../digits/model.onnx",
    "digits": "-c pipeline.yaml -o digits.onnx model.onnx",
    "digits, accuracy": "-c pipeline.yaml -s verify.metrics.accuracy=[0.999,1.0] "
    "-o digits.onnx model.onnx",
}
"""Commands of the examples' pages. A name begins with the folder."""


class NotRunError(Exception):
    """What a suite needs is not there."""


@dataclass(frozen=True)
class Suite:
    """A set of models.

    Attributes:
        models: Returns their names. Those of a smaller size come first.
        presets: Returns the names of the presets.
        judge: Puts one model through one preset; is given both names and the folder of
            exported networks.
        quick: Number of models of the size "quick".
        room: Number of models of the size "room".
        full: Number of models of the size "full".
    """

    models: Callable[[], Sequence[str]]
    presets: Callable[[], Sequence[str]]
    judge: Callable[[str, str, Path | None], Record]
    quick: int = ALL
    room: int = ALL
    full: int = ALL

    def size_of(self, place: int) -> str:
        """Return the smallest size that has the model at a place."""
        return next(size for size in SIZES if place < getattr(self, size))


def keys(size: str, suites: Iterable[str] = (), half: int | None = None) -> Iterator[Key]:
    """Yield what a size has, suite by suite and preset by preset.

    Args:
        size: One of ``SIZES``.
        suites: Names of suites; by default all.
        half: 0 or 1 for the models of one half; by default both.
    """
    for name in suites or SUITES:
        suite = SUITES[name]
        models = list(suite.models())[: getattr(suite, size)]
        for preset in suite.presets():
            for model in models:
                if half in (None, half_of_model(name, model)):
                    yield name, model, preset


def sizes(suites: Iterable[str] = ()) -> dict[Key, str]:
    """Return the smallest size that each item belongs to."""
    found: dict[Key, str] = {}
    for size in reversed(SIZES):
        found |= dict.fromkeys(keys(size, suites), size)
    return found


def half_of_model(suite: str, model: str) -> int:
    """Return the half of a model: 0 is looked at, 1 is held back.

    Exported networks are in the same half as in other measurements: ``half_of`` expects the
    name of an exporter behind the name of a network.
    """
    return half_of(model if suite == "exported" else f"{model}-")


def judge(suite: str, model: str, preset: str, networks: str | None) -> Record:
    """Return what the program says of one model."""
    try:
        return SUITES[suite].judge(model, preset, Path(networks) if networks else None)
    except NotRunError as error:
        return {"outcome": "not run", "reason": str(error)}
    except Exception as error:
        return describe_error(error)


def describe_run(run: Any) -> Record:
    """Return what the report of a run says, without its sentences."""
    report = run.report
    before, after = (getattr(report, name, None) for name in ("before", "after"))
    source, result = (str(getattr(summary, "hash", None)) for summary in (before, after))
    nodes = [str(getattr(summary, "nodes", None)) for summary in (before, after)]
    passes = [p for p in getattr(report, "passes", ()) if _matters(p)]
    found: Record = {
        "outcome": _outcome(run, unchanged=source == result),
        "exit": getattr(report, "exit_code", None),
        "source": source[:8],
        "result": result[:12],
        "nodes": " -> ".join(nodes),
        "passes": [_describe_pass(p) for p in passes],
        "checks": _count_checks(check for p in passes for check in getattr(p, "checks", ())),
        "final": _count_checks(getattr(report, "final", ())),
        "blame": _describe_blame(report),
    }
    if run.error is not None:
        found["error"] = type(run.error).__name__
    return {name: value for name, value in found.items() if value not in ([], {})}


def describe_error(error: Exception) -> Record:
    """Return what an exception that ends a run says: a refusal if it has an exit code."""
    code = getattr(error, "exit_code", None)
    outcome = "crashed" if code is None else "failed" if code == 1 else "refused"
    return {"outcome": outcome, "exit": code, "error": type(error).__name__}


def _outcome(run: Any, *, unchanged: bool) -> str:
    if run.error is not None:
        return "failed" if getattr(run.error, "exit_code", 1) == 1 else "refused"
    if unchanged:
        return "unchanged"
    if not getattr(run.report, "not_verified", ()):
        return "verified"
    checks = [*getattr(run.report, "final", ())]
    for done in getattr(run.report, "passes", ()):
        checks += getattr(done, "checks", ())
    open_ = {str(check.kind) for check in checks if str(check.verdict) == "not verified"}
    return "verified, level unknown" if open_ == {"level"} else "not verified"


def _matters(done: Any) -> bool:
    return bool(getattr(done, "changed", True)) or str(done.verdict) != "unchanged"


def _describe_pass(done: Any) -> str:
    """Return a pass as text: rewrites, what did not pass, and the evidence of applications."""
    rewrites = len(getattr(done, "rewrites", ()))
    verdict, action = str(done.verdict), getattr(done, "action", "kept")
    words = [f"{done.name} x{rewrites}" if rewrites else done.name]
    words += [verdict] if verdict != "passed" else []
    words += [action] if action != "kept" else []
    if culprits := getattr(done, "culprits", ()):
        words.append(f"culprits {' '.join(map(str, culprits))}")
    checks = _count_checks(getattr(done, "checks", ()))
    words += [check for check in checks if check.endswith(("failed", "not verified"))]
    kinds: Counter[str] = Counter()
    for one in getattr(done, "evidence", ()):
        kinds[str(one.kind)] += one.count
    evidence = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
    return ", ".join(words) + (f": {evidence}" if evidence else "")


def _count_checks(checks: Iterable[Any]) -> dict[str, int]:
    """Count checks by kind, scope and verdict; "model" and "passed" are not written."""
    texts: Counter[str] = Counter()
    for check in checks:
        words = [str(getattr(check, name, "?")) for name in ("kind", "scope", "verdict")]
        texts[" ".join(word for word in words if word not in ("model", "passed"))] += 1
    return dict(sorted(texts.items()))


def _describe_blame(report: Any) -> list[str]:
    """Return the pass and the rewrite that each part of a failure is traced to."""
    parts = [*getattr(report, "blame", ())]
    for done in getattr(report, "passes", ()):
        parts += getattr(done, "blame", ())
    names = ("name", "rule", "number")
    return [" ".join(str(getattr(part, name, None)) for name in names) for part in parts]


def judge_file(path: Path, preset: str) -> Record:
    """Run a preset on a model file as the command line does; write nothing."""
    from onnx_passes.model.load import load_model
    from onnx_passes.pipeline.run import run_pipeline

    loaded = load_model(path)
    config = _config(preset)
    return describe_run(
        run_pipeline(loaded.model, config, name="model.onnx", notes=loaded.notes)
    )


@cache
def _config(preset: str) -> Any:
    from onnx_passes.configs.pipeline_files import load_config

    return load_config(preset, ["reproducers=false"])


def _judge_bytes(data: bytes, preset: str) -> Record:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.onnx")
        path.write_bytes(data)
        return judge_file(path, preset)


@cache
def _presets() -> Sequence[str]:
    from onnx_passes.configs.pipeline_files import shipped_configs

    return sorted(shipped_configs())


@cache
def _backend_models() -> Sequence[str]:
    """Return the models of the onnx package, those of a smaller size first."""
    from tests.corpus.backend_models import ids

    return sorted(ids(), key=lambda name: hashlib.sha256(name.encode()).digest())


def _judge_backend(model: str, preset: str, networks: Path | None) -> Record:
    from tests.corpus.backend_models import load

    return _judge_bytes(load(model).model.SerializeToString(), preset)


@cache
def _random_models() -> dict[str, bytes]:
    with tarfile.open(RANDOM) as archive:
        files = ((member.name, archive.extractfile(member)) for member in archive)
        return {name: file.read() for name, file in files if file is not None}


def _judge_random(model: str, preset: str, networks: Path | None) -> Record:
    return _judge_bytes(_random_models()[model], preset)


def _judge_built(model: str, preset: str, networks: Path | None) -> Record:
    from benchmarks import models

    return _judge_bytes(getattr(models, model)(**BUILT[model]).SerializeToString(), preset)


def _judge_exported(model: str, preset: str, networks: Path | None) -> Record:
    if networks is None:
        raise NotRunError("no folder of networks is named (--networks)")
    path = networks / f"{model}.onnx"
    if not path.exists():
        raise NotRunError(f"the folder has no {path.name}")
    return judge_file(path, preset)


@cache
def _faults() -> dict[str, Any]:
    from benchmarks.faults.suite import FAULTS, INNOCENTS

    correct = {
        f"correct/{cls.name}, {source.name}": (cls, source) for cls, source in INNOCENTS
    }
    return {f"{fault.family}/{fault.name}": fault for fault in FAULTS} | correct


def _judge_fault(model: str, preset: str, networks: Path | None) -> Record:
    """Return whether a fault is caught and its rewrite named, by each setting that it has."""
    from benchmarks.faults.runner import examine, keep

    planted, full = _faults()[model], preset == "full"
    if isinstance(planted, tuple):
        kept = keep(*planted, full=full)
        outcome = f"{kept.accused} accused" if kept.accused else "not accused"
        return {"outcome": outcome, "rewrites": kept.applications}
    found = examine(planted, full=full)
    by_default = found.seen["default"].caught
    settings = [name for name, seen in found.seen.items() if seen.caught]
    caught = "caught" if by_default else f"caught by {settings[0]}" if settings else "missed"
    return {
        "outcome": f"{caught}, accused without the fault" if found.accused else caught,
        "rewrites": found.applications,
        "named": {name: seen.named for name, seen in found.seen.items()},
        "checks": {
            name: f"{seen.verdict}: {seen.by}" if seen.verdict == "failed" else seen.verdict
            for name, seen in found.seen.items()
        },
        "without": {name: said.partition(":")[0] for name, said in found.clean.items()},
    }


@cache
def _example_models() -> Sequence[str]:
    scripts = sorted((ROOT / "examples" / "side_by_side").glob("*.py"))
    return [*EXAMPLES, *(f"side_by_side/{path.name}" for path in scripts)]


def _judge_example(model: str, preset: str, networks: Path | None) -> Record:
    """Return the exit code and the console text of an example, in a copy of its folder."""
    with tempfile.TemporaryDirectory() as folder:
        copy = shutil.copytree(ROOT / "examples", Path(folder, "examples"))
        if model in EXAMPLES:
            where = copy / model.partition(",")[0]
            words = ["-m", "onnx_passes", "-v", *EXAMPLES[model].split()]
        else:
            where = (copy / model).parent
            words = [(copy / model).name]
        plain = {"COLUMNS": "200", "NO_COLOR": "1"}
        done = subprocess.run(
            [sys.executable, *words],
            cwd=where,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, **plain, "PYTHONPATH": str(ROOT)},
        )
    console = normalise(done.stdout.replace(folder, ""))
    return {"outcome": "run", "exit": done.returncode, "console": console}


@cache
def _console() -> ModuleType:
    """Return the script that runs the consoles of pages, on a terminal that wraps nothing."""
    spec = importlib.util.spec_from_file_location("console", ROOT / "docs" / "console.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    vars(module)["WIDTH"] = 200
    return module


def _judge_page(model: str, preset: str, networks: Path | None) -> Record:
    return {"outcome": "run"} | consoles(ROOT / "docs" / f"{model}.md", PAGES[model])


def consoles(page: Path, start: Path) -> dict[str, list[str]]:
    """Run the consoles of a page in a copy of a folder; return what each command prints."""
    made = _console().run(page, start)
    blocks = re.findall(r"^```console\n(.*?)^```$", made, re.S | re.M)
    printed = (pair for block in blocks for pair in _console().commands(block))
    return {f"$ {line}": normalise(text) for line, text in printed}


def normalise(text: str) -> list[str]:
    """Return the lines of console text without times, versions and widths of boxes."""
    lines = (_console().same(line).strip() for line in text.splitlines())
    return [line for line in lines if line]


def read_rules(path: Path) -> dict[str, Record]:
    """Return verdict and claim of each rule by its name. Only what is proved has a claim.

    A rule that stands in several lines, once for each value of an option, has one of each.
    """
    found: dict[str, list[Record]] = {}
    for line in path.read_text("utf-8").splitlines():
        rule = json.loads(line)
        found.setdefault(f"{rule['pass']}: {rule['rule']}", []).append(rule)
    return {
        name: {
            "outcome": ", ".join(dict.fromkeys(rule["verdict"] for rule in rules)),
            "claims": [rule.get("claim", "") for rule in rules],
        }
        for name, rules in found.items()
    }


@cache
def _rules() -> dict[str, Record]:
    return read_rules(RULES) if RULES.exists() else {}


def _judge_rule(model: str, preset: str, networks: Path | None) -> Record:
    if model == ABSENT:
        raise NotRunError(f"{RULES.relative_to(ROOT)} is not there")
    return _rules()[model]


SUITES = {
    "pages": Suite(lambda: list(PAGES), lambda: ["console"], _judge_page),
    "examples": Suite(_example_models, lambda: ["own"], _judge_example),
    "rules": Suite(lambda: list(_rules()) or [ABSENT], lambda: ["certificate"], _judge_rule),
    "exported": Suite(
        lambda: [f"{name}-{exporter}" for name in EXPORTED for exporter in EXPORTERS],
        _presets,
        _judge_exported,
        quick=0,
        room=20,
        full=40,
    ),
    "built": Suite(lambda: list(BUILT), _presets, _judge_built, quick=3, room=6, full=6),
    "faults": Suite(lambda: list(_faults()), lambda: ["small"], _judge_fault),
    "full faults": Suite(lambda: list(_faults()), lambda: ["full"], _judge_fault, quick=0),
    "backend": Suite(_backend_models, _presets, _judge_backend, quick=60, room=100, full=200),
    "random": Suite(
        lambda: list(_random_models()),
        _presets,
        _judge_random,
        quick=60,
        room=150,
        full=300,
    ),
}


def main() -> None:
    """Answer until there are no more questions."""
    seconds = float(sys.argv[1])
    logging.disable(logging.ERROR)
    warnings.simplefilter("ignore")

    def answer(question: list[Any]) -> tuple[Record, float]:
        start = sum(os.times()[:4])
        signal.setitimer(signal.ITIMER_PROF, seconds)
        try:
            return judge(*question), sum(os.times()[:4]) - start
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)

    serve(answer)


if __name__ == "__main__":
    main()
