"""Clocks, temperature and power of NVIDIA's GPUs, as their driver's tool reports them."""

from __future__ import annotations

import shutil

from onnx_passes.runtime import processes

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
            if _is_reported(value)
        }
        for row in rows
        if len(row) == len(_ASKED)
    ]


def _is_reported(value: str) -> bool:
    return bool(value) and not value.startswith("[")
