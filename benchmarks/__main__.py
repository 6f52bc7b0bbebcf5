"""``python -m benchmarks [SECTION]...``: measure, print Markdown.

The sections are faults and startup and, only where named, certify, faults-by-kind, growth,
memory, peers, published, speed, versions and yardstick. ``growth``, ``memory``, ``peers``,
``published``, ``speed``, ``versions`` and ``yardstick`` take all that follows:
``python -m benchmarks peers --help``.

A run of the command line is a process of its own, and verified and unverified runs take turns,
so that a machine that slows down slows both.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from benchmarks import growth, memory, published, speed, startup
from benchmarks import versions as version_matrix
from benchmarks.certify import mutation
from benchmarks.faults import table
from benchmarks.peers import __main__ as peers
from benchmarks.yardstick import __main__ as yardstick
from onnx_passes.runtime.environment import machine, versions

SECTIONS: dict[str, Callable[[], list[str]]] = {
    "faults": table.tables,
    "faults-by-kind": table.tables_by_kind,
    "startup": startup.tables,
    "certify": mutation.tables,
}
COMMANDS = {
    "growth": growth.main,
    "memory": memory.main,
    "peers": peers.main,
    "published": published.main,
    "speed": speed.main,
    "yardstick": yardstick.main,
}
"""Sections that take what follows as their own arguments."""
SHORT = ("faults", "startup")


def main() -> None:
    """Run the sections asked for, or the short ones."""
    section, *words = sys.argv[1:] or [""]
    if section in COMMANDS:
        COMMANDS[section](words, prog_name=f"python -m benchmarks {section}")
    if section == "versions":
        print("\n".join(version_matrix.tables(words)))
        return
    wanted = sys.argv[1:] or SHORT
    for name in wanted:
        if name not in SECTIONS:
            known = ", ".join((*SECTIONS, *COMMANDS, "versions"))
            raise SystemExit(f"no section {name!r}; there are {known}")
    print(", ".join(f"{key} {value}" for key, value in machine().items()) + "  ")
    print(", ".join(f"{key} {value}" for key, value in versions().items()))
    for name in wanted:
        print("\n" + "\n".join(SECTIONS[name]()), flush=True)


if __name__ == "__main__":
    main()
