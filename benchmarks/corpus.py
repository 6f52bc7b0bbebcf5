"""Every backend test model of the onnx package through every preset: what became of it."""

from __future__ import annotations

import logging
import tempfile
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from itertools import chain, repeat
from multiprocessing import get_context
from pathlib import Path

from onnx_passes.configs.pipeline_files import shipped_configs

PROCESSES = 2
PARTS = 40
FAULTS = ("failed", "refused", "interface", "crashed")

Told = tuple[str, str, str | None]
"""An id, what became of the model, and what was wrong."""


def tables(presets: list[str] | None = None) -> list[str]:
    """Return a row for each preset, then what was wrong and what was not verified.

    Args:
        presets: Their names; all by default.
    """
    lines = [
        "## The backend test models of the onnx package",
        "",
        "Kept: no changed result, no lost or renamed input or output, a valid file,",
        "no refusal, no crash. Verified: the run itself held the result against the original.",
        "",
        "| preset | models | kept | verified | unchanged | not verified | wrong | seconds |",
        "|---|---|---|---|---|---|---|---|",
    ]
    details: list[str] = []
    for name in presets or sorted(shipped_configs()):
        start = time.perf_counter()
        told = measure(name)
        row = _row(told)
        lines.append(f"| {name} | {' | '.join(row)} | {time.perf_counter() - start:.0f} |")
        details += _details(name, told)
    return [*lines, "", *details]


def measure(name: str) -> list[Told]:
    """Examine all models in processes of their own; one that crashes is a fault."""
    with ProcessPoolExecutor(PROCESSES, get_context("spawn")) as pool:
        parts = pool.map(_part, repeat(name), range(PARTS))
        return list(chain.from_iterable(parts))


def _part(name: str, number: int) -> list[Told]:
    from tests.corpus.backend_models import load, shard
    from tests.corpus.examine import contract_of, examine, preset

    logging.getLogger("onnx_ir").setLevel(logging.ERROR)
    config, contract, told = preset(name), contract_of(name), []
    config = config.model_copy(update={"reproducers": ""})
    with tempfile.TemporaryDirectory() as folder:
        for model_id in shard(number, PARTS):
            try:
                outcome, fault = examine(load(model_id), config, contract, Path(folder))
            except Exception as error:
                outcome, fault = "crashed", f"{type(error).__name__}: {error}"
            told.append((model_id, outcome, fault))
    return told


def _row(told: list[Told]) -> list[str]:
    wrong = sum(fault is not None for _, _, fault in told)
    right = [outcome for _, outcome, fault in told if fault is None]
    verified = sum(outcome.startswith("verified") for outcome in right)
    unchanged = sum(outcome.startswith("computes what it did") for outcome in right)
    counts = (len(told), len(right), verified, unchanged, len(right) - verified - unchanged)
    return [str(count) for count in (*counts, wrong)]


def _details(name: str, told: list[Told]) -> list[str]:
    faults = [
        f"- {name}, {model_id}: {outcome}: {fault}"
        for model_id, outcome, fault in told
        if fault
    ]
    reasons = Counter(outcome for _, outcome, fault in told if fault is None)
    return [
        *faults,
        *(f"- {name}: {count} {outcome}" for outcome, count in reasons.most_common()),
        "",
    ]
