"""``python -m benchmarks speed FOLDER [MODEL]...``: inference of each preset and its rivals.

FOLDER holds exported networks with their inputs (``benchmarks.export.families``). Beside the
presets stand onnxslim and onnxsim, where the tools of ``benchmarks.peers`` are in CACHE,
ONNX Runtime's own optimiser of transformers, and the model that ONNX Runtime writes itself.
Processor time of one thread, all in turns, and the original twice: the second shows the noise.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import sys
from pathlib import Path

import click

from benchmarks.peers.measure import SECONDS, ask
from benchmarks.peers.tools import PEERS, ours
from benchmarks.processes import run

MODEL_TYPES = ("bert", "gpt2", "vit", "clip", "t5", "bart")
"""The model type for the transformer optimiser, by the first part of a name; else ``bert``."""
TRANSFORMERS = (
    *("albert", "ast", "bart", "beit", "bert", "bigbird", "bloom", "clip", "conformer"),
    *("convbert", "deberta", "dino", "distilbert", "dpt", "electra", "falcon", "fnet"),
    *("funnel", "gemma", "gpt", "hubert", "llama", "longformer", "mistral", "mixer"),
    *("mixtral", "mobilebert", "mpnet", "olmo", "opt", "perceiver", "phi", "pvt", "qwen"),
    *("roberta", "roformer", "sam", "segformer", "siglip", "squeezebert", "swin", "t5"),
    *("transformer", "videomae", "vit", "wav2vec2", "whisper", "xlnet", "yolos"),
    *("columns", "dit", "latent-unet", "segments", "uvit"),
)
"""How the names of transformers begin."""
OFFLINE, FUSED = "onnxruntime, saved", "onnxruntime.transformers"
AGAIN = "original again"


def offline(source: Path, target: Path) -> None:
    """Write the model that ONNX Runtime makes of one when it loads it."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.optimized_model_filepath = str(target)
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])


def fused(source: Path, target: Path) -> None:
    """Run the transformer optimiser, which works out heads and sizes itself."""
    from onnxruntime.transformers import optimizer

    first = source.stem.split("-")[0]
    kind = first if first in MODEL_TYPES else "bert"
    with contextlib.redirect_stdout(sys.stderr):
        made = optimizer.optimize_model(str(source), model_type=kind, opt_level=0)
        made.save_model_to_file(str(target))


WRITERS = {OFFLINE: offline, FUSED: fused}


def half_of(name: str) -> int:
    """Return the half of the corpus that a network belongs to: 0 is looked at, 1 held back.

    All exports of a network are in the same half: both exporters, sizes fixed or not.
    """
    network = name.removesuffix("-fixed").rpartition("-")[0]
    return hashlib.sha256(network.encode()).digest()[0] % 2


def results(source: Path, folder: Path, presets: list[str], cache: Path | None) -> list[str]:
    """Write what each tool makes of a model; return the names of those that did."""
    unverified = {f"{preset}, unverified": preset for preset in presets}
    tools = {unverified[t.name]: t for t in ours(presets) if t.name in unverified}
    tools |= {tool.name: tool for tool in PEERS[:2] if cache is not None}
    made = []
    for name in (*tools, *WRITERS):
        target = folder / f"{name}.onnx"
        if not target.exists():
            if name in tools:
                command = tools[name].command(cache or folder, source, target)
            else:
                words = ["-m", "benchmarks.speed", name]
                command = [sys.executable, *words, str(source), str(target)]
            if error := run(command, SECONDS).error:
                click.echo(f"{source.stem}: {name}: {error[:200]}", err=True)
        if target.exists():
            made.append(name)
    return made


def measured(
    source: Path, folder: Path, presets: list[str], cache: Path | None
) -> dict[str, float | str]:
    """Return the times of results over the original's, or what is wrong with one."""
    folder.mkdir(parents=True, exist_ok=True)
    names = results(source, folder, presets, cache)
    said = ask("latency", source, *(folder / f"{name}.onnx" for name in names))
    return dict(zip(("ms", AGAIN, *names), said, strict=True))


def mean(values: list[float]) -> float:
    """Return the geometric mean."""
    return math.exp(sum(map(math.log, values)) / len(values)) if values else math.nan


def table(rows: dict[str, dict[str, float | str]], columns: list[str]) -> list[str]:
    """Return the ratios in Markdown, with geometric means."""
    lines = [f"| model | ms | {' | '.join(columns)} |", "|---" * (len(columns) + 2) + "|"]
    for name, row in rows.items():
        cells = [row.get(column, "-") for column in columns]
        shown = [f"{c:.2f}" if isinstance(c, float) else "-" for c in cells]
        lines.append(f"| {name} | {row['ms']:.1f} | {' | '.join(shown)} |")
    for title, kept in (
        ("geometric mean, transformers", [n for n in rows if n.startswith(TRANSFORMERS)]),
        ("geometric mean, all", list(rows)),
    ):
        # A result that is wrong, or that there is not, leaves its user with the original.
        told = [
            [v if isinstance(v := rows[n].get(column, 1.0), float) else 1.0 for n in kept]
            for column in columns
        ]
        lines.append(f"| {title} | | {' | '.join(f'{mean(v):.3f}' for v in told)} |")
    return lines


@click.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("names", metavar="[MODEL]...", nargs=-1)
@click.option("--preset", "presets", multiple=True, default=("optimize", "optimize-ort"))
@click.option("--out", type=click.Path(path_type=Path), help="Where results are kept.")
@click.option("--cache", type=click.Path(path_type=Path), help="Of ``benchmarks peers``.")
@click.option("--half", type=click.IntRange(0, 1), help="Only this half of the networks.")
def main(
    folder: Path,
    names: tuple[str, ...],
    presets: tuple[str, ...],
    out: Path | None,
    cache: Path | None,
    half: int | None,
) -> None:
    """Time each MODEL (default: all) of FOLDER, and print a table."""
    rows: dict[str, dict[str, float | str]] = {}
    for source in sorted(folder.glob("*.onnx")):
        if names and source.stem not in names:
            continue
        if half is not None and half_of(source.stem) != half:
            continue
        place = (out or folder / "speed") / source.stem
        rows[source.stem] = measured(source, place, list(presets), cache)
        faults = {k: v for k, v in rows[source.stem].items() if isinstance(v, str)}
        click.echo(f"{source.stem} {rows[source.stem]} {faults or ''}", err=True)
    columns = [AGAIN, *presets, *(t.name for t in PEERS[:2] if cache is not None), *WRITERS]
    print("\n".join(table(rows, columns)))


if __name__ == "__main__":  # in a process of its own: ``TOOL SOURCE TARGET``
    WRITERS[sys.argv[1]](Path(sys.argv[2]), Path(sys.argv[3]))
