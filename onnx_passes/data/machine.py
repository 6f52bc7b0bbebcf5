"""What of a machine can change results: its processor, and what of it may be used."""

from __future__ import annotations

import hashlib
import platform
from functools import cache

from onnx_passes.plain import PlainDict

_TOLD = (
    "avx",
    "avx2",
    "fma",
    "avx512f",
    "avx512_vnni",
    "avx_vnni",
    "amx_int8",
    "asimddp",
    "sve",
)


@cache
def machine() -> PlainDict:
    """Return what is known of this machine.

    Returns:
        "name": the host; "cpu": the processor; "flags": those of its instruction sets by
        which kernels are chosen; "digest": a hash of all flags.
    """
    model, flags = platform.processor() or platform.machine(), [platform.machine()]
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                key, _, value = line.partition(":")
                if key.strip() in ("model name", "CPU part") and value:
                    model = value.strip()
                if key.strip() in ("flags", "Features"):
                    flags += sorted(value.split())
                    break
    except OSError:
        pass  # another system: the processor's name distinguishes machines
    return {
        "name": platform.node(),
        "cpu": model,
        "flags": [flag for flag in _TOLD if flag in flags],
        "digest": hashlib.sha256(" ".join([model, *flags]).encode()).hexdigest()[:16],
    }
