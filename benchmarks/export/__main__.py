"""``python -m benchmarks.export CACHE [NETWORK]...``: write the networks, print a table.

PyTorch and what it needs go into an environment of their own in CACHE. Nothing else is
downloaded: weights are random, from a fixed seed.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import click

from benchmarks.environments import clean_environment, environment

NETWORKS = (
    *("bert", "gpt2", "gpt2-cache", "llama", "t5", "whisper"),
    *("vit", "mobilenet", "resnet", "swin", "detr"),
)
EXPORTERS = ("torchscript", "dynamo")
REQUIREMENTS = Path(__file__).with_name("requirements.txt")
SECONDS = 900
HINT = (
    "PyTorch 2.13.0 for the CPU is enough; the registry's own wheel for Linux brings CUDA. "
    "--python names an environment that has it already."
)


@click.command()
@click.argument("cache", type=click.Path(file_okay=False, path_type=Path))
@click.argument("names", metavar="[NETWORK]...", nargs=-1)
@click.option(
    "--python",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The Python of an environment with what requirements.txt lists.",
)
def main(cache: Path, names: tuple[str, ...], python: Path | None) -> None:
    """Export each NETWORK (default: all) by both exporters into CACHE/models."""
    for name in names:
        if name not in NETWORKS:
            raise click.UsageError(f"no network {name!r}; there are {', '.join(NETWORKS)}")
    folder = cache / "models"
    folder.mkdir(parents=True, exist_ok=True)
    if python is None:
        needed = REQUIREMENTS.read_text().split()
        python = environment(cache / "export", needed, HINT)
    click.echo("| model | nodes | MB | |\n|---|---|---|---|")
    for name in names or NETWORKS:
        for exporter in EXPORTERS:
            out = folder / f"{name}-{exporter}.onnx"
            click.echo(
                row(out, [str(python), "-m", "benchmarks.export.child", name, exporter])
            )


def row(out: Path, command: list[str]) -> str:
    """Export one, unless it is there; return its row, with the reason where it failed."""
    start = f"| {out.stem} |"
    beside = out.with_suffix(".json")
    if not (out.exists() and beside.exists()):
        try:
            said = subprocess.run(
                [*command, str(out)],
                capture_output=True,
                text=True,
                timeout=SECONDS,
                env={**clean_environment(), "HF_HUB_OFFLINE": "1"},
            )
        except subprocess.TimeoutExpired:
            out.unlink(missing_ok=True)
            return f"{start} | | still running after {SECONDS} s |"
        if said.returncode:
            out.unlink(missing_ok=True)
            return f"{start} | | {reason(said.stderr)} |"
        beside.write_text(said.stdout.splitlines()[-1])
    made = json.loads(beside.read_text())
    return f"{start} {made['nodes']} | {made['bytes'] / 1e6:.1f} | |"


def reason(errors: str) -> str:
    """Return the last line that names an error."""
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    named = [line for line in lines if "Error" in line.split(":")[0]]
    return (named or lines or ["it said nothing"])[-1][:300].replace("|", "/")


if __name__ == "__main__":
    main()
