"""The suites of ``python -m benchmarks verdicts``: their models, and the verdict on each.

A suite has models and presets. ``judge`` puts one model through one preset and returns what
the gate says as plain data. Reports are read by name with defaults, so that this module also
runs on a gate whose reports have other fields.

``python -m benchmarks.verdict_suites SECONDS`` reads questions from standard input, a JSON
list a line, and answers each with a line. A question that uses more processor time than
SECONDS ends the process with SIGPROF.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.peers.worker import serve

Record = dict[str, Any]

ROOT = Path(__file__).parents[1]
RANDOM_MODELS, RANDOM_SEED = 1000, 12
"""The random models of the nightly tests."""

SIZES = {"layers": 2, "hidden": 64, "heads": 4, "ffn": 128, "vocab": 100}
BUILT: dict[str, dict[str, int]] = {
    "transformer": SIZES,
    "llama_decoder": {**SIZES, "kv_heads": 2},
    "resnet50": {},
    "chain": {"nodes": 200},
}
"""Builders of ``benchmarks.models`` and their arguments."""

EXAMPLES = {
    "break_adds": "-c pipeline.yaml -o broken.onnx model.onnx",
    "break_adds, rollback": "-c pipeline.yaml -s on_failure=rollback -o same.onnx model.onnx",
    "break_adds, digits": "-c pipeline.yaml -o broken.onnx ../digits/model.onnx",
    "digits": "-c pipeline.yaml -o digits.onnx model.onnx",
    "digits, accuracy": "-c pipeline.yaml -s verify.metrics.accuracy=[0.999,1.0] "
    "-o digits.onnx model.onnx",
}
"""Commands of the examples' pages. A name begins with the folder."""

TIME = re.compile(r"<?\b\d+(?:\.\d+)? (?:ms|s|min|h)\b")


@dataclass(frozen=True)
class Suite:
    """A set of models.

    Attributes:
        models: Returns their names; is given the folder of networks.
        presets: Returns the names of the presets.
        judge: Puts one model through one preset; is given both names and the folder.
    """

    models: Callable[[Path | None], list[str]]
    presets: Callable[[], list[str]]
    judge: Callable[[str, str, Path | None], Record]


def judge(suite: str, model: str, preset: str, networks: str | None) -> Record:
    """Return the verdict on one model, with the processor time that it took."""
    start = sum(os.times()[:4])
    folder = Path(networks) if networks is not None else None
    try:
        found = SUITES[suite].judge(model, preset, folder)
    except Exception as error:
        found = describe_error(error)
    return {**found, "seconds": round(sum(os.times()[:4]) - start, 2)}


def describe_run(run: Any) -> Record:
    """Return what the report of a run says, without what it says in sentences."""
    report = run.report
    before, after = (getattr(report, name, None) for name in ("before", "after"))
    hashes = [getattr(summary, "hash", None) for summary in (before, after)]
    found: Record = {
        "outcome": _outcome(run, unchanged=hashes[0] == hashes[1]),
        "exit_code": getattr(report, "exit_code", None),
        "hash": hashes[1],
        "nodes": [getattr(summary, "nodes", None) for summary in (before, after)],
        "passes": [_describe_pass(p) for p in getattr(report, "passes", ()) if _matters(p)],
        "final": _describe_checks(getattr(report, "final", ())),
        "blame": _describe_blame(report),
        "reasons": list(getattr(report, "not_verified", ())),
    }
    if run.error is not None:
        found |= _named_error(run.error)
    return found


def describe_error(error: Exception) -> Record:
    """Return what an exception that ends a run says: a refusal if it has an exit code."""
    code = getattr(error, "exit_code", None)
    outcome = "crashed" if code is None else "failed" if code == 1 else "refused"
    return {"outcome": outcome, "exit_code": code, **_named_error(error)}


def _named_error(error: Exception) -> Record:
    lines = str(error).splitlines() or [""]
    text = lines[0].replace(tempfile.gettempdir(), "")
    return {"error": type(error).__name__, "message": text[:300]}


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


def _describe_pass(done: Any) -> Record:
    found: Record = {"pass": done.name, "verdict": str(done.verdict)}
    if (action := getattr(done, "action", "kept")) != "kept":
        found["action"] = action
    if rewrites := getattr(done, "rewrites", ()):
        found["rewrites"] = len(rewrites)
    if culprits := getattr(done, "culprits", ()):
        found["culprits"] = list(culprits)
    return {**found, "checks": _describe_checks(getattr(done, "checks", ()))}


def _describe_checks(checks: Iterable[Any]) -> list[str]:
    """Return kind, scope and verdict of each check; equal ones once, with their number."""
    texts = Counter(
        " ".join(str(getattr(check, name, "?")) for name in ("kind", "scope", "verdict"))
        for check in checks
    )
    return [text if count == 1 else f"{text} x{count}" for text, count in texts.items()]


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

    return load_config(preset, ["reproducers=false", "cache=false"])


def _judge_bytes(data: bytes, preset: str) -> Record:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.onnx")
        path.write_bytes(data)
        return judge_file(path, preset)


def _presets() -> list[str]:
    from onnx_passes.configs.pipeline_files import shipped_configs

    first = ["optimize", "simplify", "cleanup", "tensorrt", "lower", "optimize-ort"]
    shipped = shipped_configs()
    return [name for name in first if name in shipped] + sorted({*shipped} - {*first})


def _backend_models(networks: Path | None) -> list[str]:
    from tests.corpus.backend_models import ids

    return list(ids())


def _judge_backend(model: str, preset: str, networks: Path | None) -> Record:
    from tests.corpus.backend_models import load

    return _judge_bytes(load(model).model.SerializeToString(), preset)


@cache
def _recipes() -> list[Any]:
    from onnx_passes.verify.models import recipes

    return list(recipes(RANDOM_MODELS, seed=RANDOM_SEED))


def _random_models(networks: Path | None) -> list[str]:
    return [f"{number:04d}" for number in range(RANDOM_MODELS)]


def _judge_random(model: str, preset: str, networks: Path | None) -> Record:
    return _judge_bytes(_recipes()[int(model)].proto().SerializeToString(), preset)


def _network_models(networks: Path | None) -> list[str]:
    if networks is None:
        return list(BUILT)
    paths = sorted(networks.rglob("*.onnx"))
    return [path.relative_to(networks).with_suffix("").as_posix() for path in paths]


def _judge_network(model: str, preset: str, networks: Path | None) -> Record:
    if networks is not None:
        return judge_file(networks / f"{model}.onnx", preset)
    from benchmarks import models

    return _judge_bytes(getattr(models, model)(**BUILT[model]).SerializeToString(), preset)


@cache
def _faults() -> dict[str, Any]:
    from benchmarks.faults.correct import CORRECT
    from benchmarks.faults.suite import FAULTS

    correct = {f"correct/{cls.name}, {src.name}": (cls, src) for cls, src in CORRECT}
    return {f"{fault.family}/{fault.name}": fault for fault in FAULTS} | correct


def _judge_fault(model: str, preset: str, networks: Path | None) -> Record:
    """Return whether a fault is caught and its rewrite named, by each setting that it has."""
    from benchmarks.faults.correct import keep
    from benchmarks.faults.runner import examine

    planted, full = _faults()[model], preset == "full"
    if isinstance(planted, tuple):
        kept = keep(*planted, full=full)
        outcome = "accused" if kept.accused else "not accused"
        return {"outcome": outcome, "accused": kept.accused, "rewrites": kept.applications}
    found = examine(planted, full=full)
    by_default = found.seen["default"].caught
    settings = [name for name, seen in found.seen.items() if seen.caught]
    caught = "caught" if by_default else f"caught by {settings[0]}" if settings else "missed"
    return {
        "outcome": f"{caught}, accused" if found.accused else caught,
        "rewrites": found.applications,
        "named": {name: seen.named for name, seen in found.seen.items()},
        "verdicts": {name: seen.verdict for name, seen in found.seen.items()},
        "checks": {name: seen.by for name, seen in found.seen.items()},
        "without the fault": found.clean,
        "reasons": [seen.reason for seen in found.seen.values()],
    }


def _example_models(networks: Path | None) -> list[str]:
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
        plain = {"COLUMNS": "200", "NO_COLOR": "1", "ONNX_PASSES_CACHE": f"{folder}/cache"}
        done = subprocess.run(
            [sys.executable, *words],
            cwd=where,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, **plain, "PYTHONPATH": str(ROOT)},
        )
    outcome = "ended with 0" if done.returncode == 0 else f"ended with {done.returncode}"
    console = mask(done.stdout.replace(folder, ""))
    return {"outcome": outcome, "exit_code": done.returncode, "console": console}


def mask(text: str) -> str:
    """Return console text without times, and with one space or line where widths vary."""
    text = TIME.sub("TIME", text)
    text = re.sub(r"─+", "─", re.sub(r" {2,}", " ", text))
    return re.sub(r" +$", "", text, flags=re.MULTILINE)


SUITES = {
    "networks": Suite(_network_models, _presets, _judge_network),
    "examples": Suite(_example_models, lambda: ["own"], _judge_example),
    "faults": Suite(lambda _: list(_faults()), lambda: ["small", "full"], _judge_fault),
    "backend": Suite(_backend_models, _presets, _judge_backend),
    "random": Suite(_random_models, _presets, _judge_random),
}


def main() -> None:
    """Answer until there are no more questions."""
    seconds = float(sys.argv[1])
    logging.disable(logging.ERROR)
    warnings.simplefilter("ignore")

    def answer(question: list[Any]) -> Record:
        signal.setitimer(signal.ITIMER_PROF, seconds)
        try:
            return judge(*question)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)

    serve(answer)


if __name__ == "__main__":
    main()
