"""The machine, its GPUs and the packages that a report records.

With them the numbers of the report can be repeated.
"""

from __future__ import annotations

import os
import platform
import shutil
from importlib import metadata
from pathlib import Path

from onnx_passes import __version__
from onnx_passes.runtime import processes

PACKAGES = (
    "onnx",
    "onnx-ir",
    "onnxscript",
    "onnxruntime",
    "onnxruntime-gpu",
    "onnxruntime-openvino",
    "openvino",
    "tensorrt",
    "tensorrt-rtx",
    "numpy",
    "ml-dtypes",
    "z3-solver",
)
"""The packages whose versions can change a number in a report."""


def versions() -> dict[str, str]:
    """Return the versions of Python, of this package, and of each installed ``PACKAGES``."""
    # Metadata of an editable install are as old as the install.
    found = {"python": platform.python_version(), "onnx-passes": __version__}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def machine() -> dict[str, str]:
    """Return the CPU, its cores that may be used, the memory and the operating system.

    Nothing in it identifies one machine among those of a kind: no host name, user or path.
    """
    facts = {
        "cpu": _cpu(),
        "cores": str(processes.cores()),
        "os": f"{platform.system()} {platform.release()}",
        "architecture": platform.machine(),
    }
    if memory := _memory():
        facts["memory"] = f"{memory / 2**30:.1f} GiB"
    return facts


def _cpu() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass  # not Linux
    return platform.processor() or platform.machine()


def _memory() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None  # not POSIX


_TOOL = "nvidia-smi"
_SECONDS = 10.0
_ASKED = {
    "name": "name",
    "clocks.sm": "SM clock (MHz)",
    "clocks.mem": "memory clock (MHz)",
    "temperature.gpu": "temperature (C)",
    "power.draw": "power (W)",
    "clocks_event_reasons.active": "throttle reasons",
}


def gpu_states() -> list[dict[str, str]]:
    """Return what each GPU says of itself; nothing where there is none, or no such tool.

    What a GPU does not report is left out.
    """
    if (tool := shutil.which(_TOOL)) is None:
        return []
    command = [tool, f"--query-gpu={','.join(_ASKED)}", "--format=csv,noheader,nounits"]
    try:
        ended = processes.run(command, _SECONDS)
    except OSError:
        return []
    if ended.code != 0:
        return []
    lines = ended.out.decode(errors="replace").splitlines()
    rows = [[part.strip() for part in line.split(",")] for line in lines]
    return [
        {
            key: value
            for key, value in zip(_ASKED.values(), row, strict=False)
            if value and not value.startswith("[")
        }
        for row in rows
        if len(row) == len(_ASKED)
    ]
