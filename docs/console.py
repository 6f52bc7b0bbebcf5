"""Run the consoles of a page: ``python docs/console.py PAGE...`` writes what they print.

A page holds files and consoles. A block of Python or YAML that begins with a comment of a
file's name is that file. In a console, lines after ``$`` are commands; what they
print follows. All run in one folder, on a terminal of 90 columns, in the order of the page.
Times, versions and temporary folders are not compared.
"""

from __future__ import annotations

import os
import pty
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
WIDTH = 90
_BLOCK = re.compile(r"^```(console|python|yaml)\n(.*?)^```$", re.S | re.M)
_FILE = re.compile(r"# (\S+\.(?:py|yaml))\n")
_NOT_COMPARED = (
    (re.compile(r"\s+"), " "),  # a longer time wraps its line at another word
    (re.compile(r"(?:<1|\d+(?:\.\d+)?) ?(?:ms|s)\b"), "TIME"),
    (re.compile(r"\b\d+\.\d+\.\d+(?:\.\w+)?\b"), "VERSION"),
    (re.compile(r"\b(?:\d+(?:\.\d+)?e-\d+|0\.0\d+)\b"), "SMALL"),  # rounding of a machine
    (re.compile(r"\d{4}-\d\d-\d\d[ T][\d:+]+"), "DATE"),
    (re.compile(r"[─╭╮╰╯]+"), "-"),
)


def commands(text: str) -> Iterator[tuple[str, str]]:
    """Yield each command of a console, and what it prints."""
    for part in re.split(r"^\$ ", text, flags=re.M)[1:]:
        command, _, printed = part.partition("\n")
        yield command, printed


def run(page: Path, start: Path | None = None) -> str:
    """Run the consoles of a page in a folder of its own; return the page as it has to be.

    Args:
        page: The page.
        start: A folder whose files are there at the beginning.
    """
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "work"
        if start is None:
            place.mkdir()
        else:
            shutil.copytree(start, place)
        install(Path(folder) / "bin")

        def replaced(block: re.Match[str]) -> str:
            kind, text = block[1], block[2]
            if kind != "console":
                if named := _FILE.match(text):
                    (place / named[1]).write_text(text)
                return block[0]
            made = "".join(f"$ {c}\n{printed(c, Path(folder))}" for c, _ in commands(text))
            return f"```console\n{made}```"

        return _BLOCK.sub(replaced, page.read_text("utf-8"))


def printed(command: str, folder: Path) -> str:
    """Return what a command prints on a terminal, without colours."""
    ours, theirs = pty.openpty()
    variables = {
        **os.environ,
        "COLUMNS": str(WIDTH),
        "LINES": "40",
        "NO_COLOR": "1",
        "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": str(ROOT),
        "TERM": "dumb",
    }
    variables.pop("FORCE_COLOR", None)
    child = subprocess.Popen(
        ["bash", "-c", command],
        cwd=folder / "work",
        env=variables,
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    found = b""
    while True:
        try:
            read = os.read(ours, 65536)
        except OSError:  # how Linux says that the other side is closed
            break
        if not read:
            break
        found += read
    os.close(ours)
    child.wait()
    text = found.decode("utf-8", "replace").replace("\r\n", "\n")
    text = text.replace(str(folder / "work"), "...")
    return "".join(f"{line.rstrip()}\n" for line in text.splitlines()).lstrip("\n")


def same(text: str) -> str:
    """Return what two runs of a page have in common."""
    for pattern, word in _NOT_COMPARED:
        text = pattern.sub(word, text)
    return text


def install(folder: Path) -> None:
    """Make a folder with the programs that commands call."""
    folder.mkdir()
    for name, words in {"onnx-passes": "-m onnx_passes", "python": ""}.items():
        script = folder / name
        script.write_text(f'#!/bin/sh\nexec {sys.executable} {words} "$@"\n')
        script.chmod(0o755)


def main() -> int:
    """Write the pages that are named."""
    for name in sys.argv[1:]:
        page = Path(name)
        page.write_text(run(page, ROOT / "examples" / "digits"), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
