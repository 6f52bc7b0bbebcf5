"""``python -m benchmarks [SECTION]...``: measure, print Markdown.

The sections are driver, regions, faults, failures, startup and, only where named, certify,
corpus, data, qonnx, reduce, streamlining, thresholds, tune-quality, growth, peers, published,
speed and yardstick. ``certify``, ``corpus``, ``faults-on``, ``growth``, ``lost-support``,
``peers``, ``published``, ``speed``, ``versions`` and ``yardstick`` take all that follows:
``python -m benchmarks peers --help``.

Each figure is a median of several runs. A run of the command line is a process of its own, and
verified and unverified runs take turns, so that a machine that slows down slows both.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from benchmarks import (
    corpus,
    data_sets,
    driver,
    failures,
    growth,
    lost_support,
    memory,
    published,
    qonnx_transformations,
    reduce,
    regions,
    startup,
    streamlining,
    thresholds,
)
from benchmarks import (
    versions as version_matrix,
)
from benchmarks.certify import report
from benchmarks.faults import on_engine, table
from benchmarks.peers.__main__ import main as peers
from benchmarks.speed import main as speed
from benchmarks.tune import quality
from benchmarks.yardstick.__main__ import main as yardstick
from onnx_passes.runtime.environment import machine, versions

SECTIONS: dict[str, Callable[[], list[str]]] = {
    "regions": regions.tables,
    "driver": driver.tables,
    "faults": table.tables,
    "failures": failures.tables,
    "memory": memory.tables,
    "startup": startup.tables,
    "certify": report.tables,
    "corpus": corpus.tables,
    "reduce": reduce.tables,
    "data": data_sets.tables,
    "streamlining": streamlining.tables,
    "thresholds": thresholds.tables,
    "qonnx": qonnx_transformations.tables,
    "tune-quality": quality.tables,
}
ARGUMENTS: dict[str, Callable[[list[str]], object]] = {
    "certify": lambda words: print("\n".join(report.tables(words)), flush=True),
    "corpus": lambda words: print("\n".join(corpus.tables(words)), flush=True),
    "faults-on": lambda words: print("\n".join(on_engine.tables(words)), flush=True),
    "growth": lambda words: growth.main(words, prog_name="python -m benchmarks growth"),
    "lost-support": lambda words: print("\n".join(lost_support.tables(words)), flush=True),
    "memory": lambda words: memory.main(words, prog_name="python -m benchmarks memory"),
    "peers": lambda words: peers(words, prog_name="python -m benchmarks peers"),
    "published": lambda words: published.main(
        words, prog_name="python -m benchmarks published"
    ),
    "speed": lambda words: speed(words, prog_name="python -m benchmarks speed"),
    "versions": lambda words: print("\n".join(version_matrix.tables(words)), flush=True),
    "yardstick": lambda words: yardstick(words, prog_name="python -m benchmarks yardstick"),
}
"""Sections that take what follows as their own arguments."""
LONG = ("certify", "corpus", "data", "reduce", "streamlining", "thresholds", "tune-quality")
"""Sections that take long: run only where named."""


def main() -> None:
    """Run the sections asked for, or all short ones."""
    section, *words = sys.argv[1:] or [""]
    if section in ARGUMENTS and (words or section not in SECTIONS):
        ARGUMENTS[section](words)
        return
    wanted = sys.argv[1:] or [name for name in SECTIONS if name not in LONG]
    unknown = [name for name in wanted if name not in SECTIONS]
    if unknown:
        raise SystemExit(
            f"no section {unknown[0]!r}; there are {', '.join({**SECTIONS, **ARGUMENTS})}"
        )
    print(", ".join(f"{key} {value}" for key, value in machine().items()) + "  ")
    print(", ".join(f"{key} {value}" for key, value in versions().items()))
    for name in wanted:
        print("\n" + "\n".join(SECTIONS[name]()), flush=True)


if __name__ == "__main__":
    main()
