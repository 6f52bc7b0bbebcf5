"""Environments of their own for what the project does not depend on."""

from __future__ import annotations

import compileall
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

HELP = """{folder}: pip could not install what is needed:
    {requirements}
Without a network, put the wheels into a folder and set PIP_FIND_LINKS to it. {hint}
{errors}"""


def environment(folder: Path, requirements: Sequence[str], hint: str = "") -> Path:
    """Return the Python of an environment with these packages, made if it is not there.

    An environment is kept as long as its list of packages stays the same.

    Args:
        folder: Where it is or will be.
        requirements: What pip is asked for.
        hint: What else a reader should know where that fails.
    """
    python = folder.absolute() / "bin" / "python"
    listed, wanted = folder / "requirements.txt", "\n".join(requirements)
    if python.exists() and listed.exists() and listed.read_text() == wanted:
        return python
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    done = subprocess.run([*pip, *requirements], capture_output=True, text=True)
    if done.returncode:
        needed = "\n    ".join(requirements)
        errors = "\n".join(done.stderr.splitlines()[-5:])
        raise SystemExit(
            HELP.format(folder=folder, requirements=needed, hint=hint, errors=errors)
        )
    listed.write_text(wanted)
    return python


def clean_environment() -> dict[str, str]:
    """Return this process's variables without those that reach into another Python."""
    return {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}


def compile_bytecode() -> None:
    """Compile this project, as pip does for what it installs.

    Python may be set up not to keep bytecode, and would compile hundreds of files in each run.
    """
    folder = Path(__file__).parents[1] / "onnx_passes"
    if not compileall.compile_dir(folder, quiet=2):
        raise SystemExit(f"{folder}: not all of it can be compiled")
