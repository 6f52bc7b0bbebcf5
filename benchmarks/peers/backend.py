"""``python -m benchmarks.peers.backend CACHE [TOOL]...``: onnx's 2,033 backend test models.

Each tool is one process that is handed one model after the other and started anew after a
crash or when it hangs; another judges what it made. Figures are kept in CACHE/backend.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections import Counter
from pathlib import Path

import click

from benchmarks.peers.server import Server
from benchmarks.peers.tools import OPTIMIZE, WORKER, Tool, ours, peers_of

SECONDS = 60.0
FRESH = 50
"""Models after which a tool's process starts anew: onnxslim wraps itself with each one."""

OUTCOMES = (
    "kept",
    "changed",
    "interface",
    "invalid",
    "refused",
    "crashed",
    "hangs",
    "unchecked",
)
"""What becomes of a model; ``unchecked``: no engine runs the original, or it is random."""


@click.command()
@click.argument("cache", type=click.Path(file_okay=False, path_type=Path))
@click.argument("names", metavar="[TOOL]...", nargs=-1)
@click.option("--print-only", is_flag=True, help="Run nothing: print what was counted.")
def main(cache: Path, names: tuple[str, ...], print_only: bool) -> None:
    """Run each TOOL (default: all) over all models, and print the counts of all."""
    tools = {tool.name: tool for tool in (*peers_of(OPTIMIZE), *ours())}
    for name in names:
        if name not in tools:
            raise click.UsageError(f"no tool {name!r}; there are: {'; '.join(tools)}")
    if not print_only:
        for name in names or tools:
            measure(cache, tools[name])
    print("\n".join(tables(cache)))


def measure(cache: Path, tool: Tool) -> None:
    """Run a tool over all models and write what became of each."""
    from tests.corpus.backend_models import ids, load

    folder = cache / "backend"
    folder.mkdir(parents=True, exist_ok=True)
    worker = Server([str(tool.python(cache)), "-P", str(WORKER), tool.name], SECONDS)
    judge = Server([sys.executable, "-m", "benchmarks.peers.backend_judge"], SECONDS)
    told: dict[str, tuple[str, str]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        source, target = Path(scratch, "model.onnx"), Path(scratch, "result.onnx")
        for number, model_id in enumerate(ids()):
            if number % FRESH == 0:
                worker.stop()
            source.write_bytes(load(model_id).model.SerializeToString())
            target.unlink(missing_ok=True)
            kind, said = worker.ask([str(source), str(target)])
            if kind == "answer" and said != "ok":
                kind, said = "refused", said[:300]
            elif kind == "answer":
                kind, said = judge.ask([model_id, str(target)])
                if kind == "answer":
                    kind, said = said
                elif kind == "crashed":
                    kind, said = "invalid", "an engine crashes on it"
            told[model_id] = (kind, said)
    worker.stop()
    judge.stop()
    (folder / f"{tool.name}.json").write_text(json.dumps(told, indent=1))


def tables(cache: Path) -> list[str]:
    """Return the counts, and what went wrong most often."""
    lines = [f"| tool | {' | '.join(OUTCOMES)} |", "|---" * (len(OUTCOMES) + 1) + "|"]
    for tool in (*peers_of(OPTIMIZE), *ours()):
        path = cache / "backend" / f"{tool.name}.json"
        if path.exists():
            counts = Counter(kind for kind, _ in json.loads(path.read_text()).values())
            lines.append(f"| {tool.name} | {' | '.join(str(counts[o]) for o in OUTCOMES)} |")
    return lines


if __name__ == "__main__":
    main()
