"""``python -m benchmarks memory``: anonymous memory of commands on weights in files.

Anonymous memory is what a process cannot give back; pages of files that are mapped are not
counted. The bar is 500 MB and twice the largest tensor, whatever the size of all weights.
"""

from __future__ import annotations

import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np

from benchmarks.models.layers import FORMS, write_layers
from benchmarks.processes import run

MEGABYTE = 1e6
ROOM = 500e6
"""The bar, beside twice the largest tensor."""

MOST = 6000
"""Megabytes at which a command is stopped."""

SOUND = "verify.metrics={snr: [0, .inf]}"
TUNE = """verify: {metrics: {snr: [10, .inf]}}
reference: {inputs: [feeds.npz]}
tune: {formats: [float16, int8-weights], objective: size}
"""
STATIC = """passes: [quantize-static]
verify: {metrics: {snr: [0, .inf]}}
reference: {inputs: [feeds.npz]}
"""


@dataclass(frozen=True)
class Case:
    """A command on one of the models.

    Attributes:
        form: The model, a key of ``FORMS``.
        words: The command; ``{model}``, ``{copy}``, ``{out}``, ``{folder}`` are paths,
            ``{width}`` is the size of the input.
        large: Whether the bar asks for it on 10 GB.
    """

    form: str
    words: str
    large: bool = False

    @property
    def title(self) -> str:
        """The command as a row shows it."""
        hidden = ("{model}", "{copy}", "-o {out}", "{folder}/", f"-s '{SOUND}'")
        text = self.words
        for word in hidden:
            text = text.replace(word, "")
        return " ".join(text.split())


def _runs(form: str, *passes: str, metric: bool = False) -> list[Case]:
    """Return pipelines, each verified and unverified."""
    judge = f"-s '{SOUND}'" if metric else ""
    return [
        Case(form, f"-o {{out}} {{model}} {name} {how}")
        for name in passes
        for how in (judge, "--no-verify")
    ]


COMMANDS = """
scaled: -c optimize -o {out} {model}
turned: -c optimize -o {out} {model}
normalised: -c optimize -o {out} {model}
products*: compare {model} {copy}
products*: compare {model} {copy} --outputs all --memory-limit 64MiB --generate samples=1
products*: reduce {model} -o {out} --no-shrink --check sh -c '! grep -q MatMul $0' {candidate}
products*: diff {model} {copy}
products*: inspect model {model} --show weights
products*: inspect model {model} --show values
products*: tune {model} -c {folder}/tune.yaml -o {out}
products: lint {model}
products: extract {model} -o {out} --outputs v3
products: sanitize {model} -o {out} --fold-constants --cleanup
products: sanitize {model} -o {out} --override-input-shapes x:3x{width}
products: strip-weights {model} -o {folder}/stripped.onnx
products: restore-weights {folder}/stripped.onnx --from {model} -o {out}
products: restore-weights {folder}/stripped.onnx --random 0 -o {out}
products: rename {model} -o {out} v1=u1
products: -s save.external_data=inline -o {out} {model}
"""
"""Commands by model; a star is at those that the bar asks for on 10 GB."""
ROWS = [line.partition(": ") for line in COMMANDS.strip().splitlines()]
CASES: tuple[Case, ...] = (
    *_runs("products", "-c optimize"),
    *_runs("products", "convert-float16", "quantize-weights", "quantize-dynamic", metric=True),
    Case("products", "-o {out} {model} -c {folder}/static.yaml"),
    *_runs("scaled", "fuse-matmul-scale"),
    *_runs("turned", "fold-constants"),
    *_runs("normalised", "fuse-batch-normalization"),
    *_runs("normalised", "convert-to-channels-last", "'convert-layout{inputs={x: nhwc}}'"),
    *(Case(form.rstrip("*"), words, form.endswith("*")) for form, _, words in ROWS),
)


@click.command()
@click.option("--gigabytes", default=2.0, show_default=True, help="Weights of each model.")
@click.option("--only", multiple=True, help="Run the rows that hold this text; repeat.")
@click.option("--large", is_flag=True, help="Run the rows that the bar asks for on 10 GB.")
@click.option("--tensors", type=int, help="Number of weights: 2 are two huge ones.")
def main(gigabytes: float, only: tuple[str, ...], large: bool, tensors: int | None) -> None:
    """Print the anonymous memory of each command, beside the bar."""
    chosen = [
        case
        for case in CASES
        if (case.large or not large) and any(text in case.title for text in only or ("",))
    ]
    for line in rows(chosen, gigabytes, tensors):
        print(line, flush=True)


def rows(cases: Sequence[Case], gigabytes: float, tensors: int | None = None) -> Iterator[str]:
    """Yield the table, a row as soon as it is measured.

    Args:
        cases: What to run.
        gigabytes: Weights of each model.
        tensors: Number of weights; None for layers of the usual width.
    """
    shares = "" if tensors is None else f", {tensors} tensors"
    yield f"## Anonymous memory, {gigabytes:g} GB of weights in a file{shares}"
    yield ""
    yield "| model | command | peak (MB) | bar (MB) | s |"
    yield "|---|---|---|---|---|"
    for form in FORMS:
        mine = [case for case in cases if case.form == form]
        if not mine:
            continue
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            dims = write_layers(folder / "model.onnx", form, gigabytes, tensors)
            # The weights of the copy are the same file; no two models share it in memory.
            shutil.copy(folder / "model.onnx", folder / "copy.onnx")
            shape = (2, dims[0], 4, 4) if form == "normalised" else (2, dims[0])
            feeds = np.random.default_rng(0).standard_normal(shape, np.float32)
            np.savez(folder / "feeds.npz", x=feeds)
            (folder / "tune.yaml").write_text(TUNE)
            (folder / "static.yaml").write_text(STATIC)
            for case in mine:
                yield _row(case, folder, dims)


def _row(case: Case, folder: Path, dims: tuple[int, ...]) -> str:
    bar = (ROOM + 8 * float(np.prod(dims))) / MEGABYTE
    with tempfile.TemporaryDirectory(dir=folder) as inner:
        names = {
            "model": folder / "model.onnx",
            "copy": folder / "copy.onnx",
            "folder": folder,
            "out": Path(inner) / "out.onnx",
            "candidate": "{model}",
            "width": dims[0],
        }
        words = shlex.split(case.words)
        for key, path in names.items():
            words = [word.replace(f"{{{key}}}", str(path)) for word in words]
        command = [sys.executable, "-m", "onnx_passes", *words]
        done = run(command, megabytes=MOST)
        return (
            f"| {case.form} | `{case.title}` {done.error} | {done.megabytes:.0f} "
            f"{'' if done.megabytes <= bar else '**over** '}| {bar:.0f} | {done.seconds:.0f} |"
        )
