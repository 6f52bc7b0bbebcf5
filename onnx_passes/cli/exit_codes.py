"""How every command ends: the one table of exit codes."""

from __future__ import annotations

EXIT_CODES = {
    0: "done; what was checked holds. A run is VERIFIED, UNCHANGED or PARTLY VERIFIED",
    1: "a check failed: results differ, a rule is refuted, a model has errors",
    2: "the command line, the pipeline file or the data is wrong; nothing was run",
    3: "a model cannot be read, or an engine cannot run it, or is not on this machine",
    4: "no verdict: a run is NOT VERIFIED (or, with --strict, PARTLY), samples do not decide",
    5: "a part of a data set could not be evaluated",
    70: "a fault of onnx-passes itself; it names a file to report",
    130: "interrupted (143 terminated); it says what was written",
    141: "the reader of its output went away",
}
