"""``python -m benchmarks growth CACHE``: what a node costs, in graphs of 5,000 to 100,000.

CACHE has the tools of ``peers``. Seconds are processor time of whole processes, in turns.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
import onnx

from benchmarks.environments import compile_bytecode
from benchmarks.models import chain, random_graph
from benchmarks.peers.tools import OPTIMIZE, PEERS, ours
from benchmarks.processes import medians

GRAPHS = {"chain": chain, "random": random_graph}
TOOLS = (*reversed(ours((OPTIMIZE,))), PEERS[1])
"""Without checks, with checks, and onnxsim."""


@click.command()
@click.argument("cache", type=click.Path(file_okay=False, path_type=Path))
@click.option("--nodes", type=int, multiple=True, default=(5_000, 20_000, 60_000, 100_000))
@click.option("--graph", type=click.Choice(list(GRAPHS)), multiple=True, default=list(GRAPHS))
@click.option("--runs", default=3, show_default=True, help="How often each tool is run.")
@click.option("--limit", default=900.0, show_default=True, help="Seconds of a run.")
def main(
    cache: Path, nodes: Sequence[int], graph: Sequence[str], runs: int, limit: float
) -> None:
    """Print a table with a row for each graph; a run that is stopped takes "inf"."""
    for line in rows(cache, nodes, graph, runs, limit):
        print(line, flush=True)


def rows(
    cache: Path, nodes: Sequence[int], graphs: Sequence[str], runs: int, limit: float
) -> Iterator[str]:
    """Yield the table, a row as soon as it is measured.

    Args:
        cache: Where the tools are.
        nodes: Sizes that are asked for; random graphs have about a seventh more.
        graphs: Their kinds, keys of ``GRAPHS``.
        runs: How often each tool is run.
        limit: Seconds of wall time after which a run is stopped.
    """
    compile_bytecode()
    yield f"## Costs by the number of nodes (medians of {runs}, processor seconds)"
    yield ""
    yield "A node costs what a run takes beyond that of 100 nodes."
    yield ""
    yield (
        "| graph | nodes | unverified (s) | verified (s) | onnxsim (s) | a node, unverified "
        "(ms) | a node, verified (ms) | verified over unverified | unverified over onnxsim |"
    )
    yield "|---" * 9 + "|"
    for name in graphs:
        floor = _medians(cache, GRAPHS[name](100), runs, limit)
        for wanted in nodes:
            model = GRAPHS[name](wanted)
            count = len(model.graph.node)
            plain, verified, peer = taken = _medians(cache, model, runs, limit)
            cost, checked = (
                1000 * (t - f) / count for t, f in zip(taken[:2], floor[:2], strict=True)
            )
            yield (
                f"| {name} | {count:,} | {plain:.2f} | {verified:.2f} | {peer:.2f} "
                f"| {cost:.3f} | {checked:.3f} | {verified / plain:.2f} | {plain / peer:.2f} |"
            )


def _medians(cache: Path, model: onnx.ModelProto, runs: int, limit: float) -> list[float]:
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "model.onnx"), Path(folder, "out.onnx")
        onnx.save(model, source)
        return medians([tool.command(cache, source, target) for tool in TOOLS], runs, limit)
