"""A refutation as a folder that reproduces it, and as a test that applies the rule again."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.certifying.proof import Fault
from onnx_passes.certifying.replay import Feeds, samples
from onnx_passes.certifying.rewrite_rule import resolve, rules_of
from onnx_passes.certifying.rule_fuzzing import Examiner
from onnx_passes.contracts import Equality, Tolerance, contracts_of
from onnx_passes.errors import UsageError
from onnx_passes.model.save import save_model
from onnx_passes.runtime.engine_models import insert_barriers
from onnx_passes.verify.bundle import REPLAY_SECONDS, Bundle, write_failing
from onnx_passes.verify.judge import default_tolerance


def write_refutation(
    fault: Fault, declared: Equality | Tolerance | None, folder: Path
) -> tuple[Path, str]:
    """Write two models that differ, with inputs and a script, and run the script.

    Return the folder, and why the script does not show the difference; empty if it does.
    UsageError if the folder cannot be written.
    """
    assert fault.after is not None
    assert fault.found is not None
    limits = {}
    if fault.breaks == "tolerance":
        assert isinstance(declared, Tolerance)
        for name, array in fault.found.expected.items():
            rtol, atol = default_tolerance(array.dtype)
            limits[name] = (
                rtol if declared.rtol is None else declared.rtol,
                atol if declared.atol is None else declared.atol,
            )
    if fault.breaks == "values":
        for name, array in fault.found.expected.items():
            if array.dtype.kind == "f":
                limits[name] = default_tolerance(array.dtype)
    readme = f"# A rewrite rule that is wrong\n\nDeclared: {declared}\n\n{fault.text()}\n"
    # The script needs no package of ours, so that the models bring their barriers along.
    before, after = (
        insert_barriers(_with_defaults(model, fault.found.feeds))
        for model in (fault.before, fault.after)
    )
    scaled = fault.breaks == "tolerance"
    bundle = Bundle(before, after, fault.found.feeds, limits, scaled=scaled, readme=readme)
    return write_failing([bundle], folder, REPLAY_SECONDS)


def is_reproducible(fault: Fault, declared: Equality | Tolerance | None) -> bool:
    """Whether the script of a refutation shows it.

    A rule that raises, or makes an invalid model, has no script of this kind: that is seen
    again by applying it again.
    """
    if fault.after is None or fault.found is None:
        return True
    with tempfile.TemporaryDirectory() as scratch:
        _, why = write_refutation(fault, declared, Path(scratch) / "refutation")
    return not why


def _with_defaults(model: ir.Model, feeds: Feeds) -> ir.Model:
    """Return a copy in which inputs that have a default default to what was fed."""
    copy = model.clone()
    for value in copy.graph.inputs:
        name = value.name or ""
        if value.const_value is not None and name in feeds:
            value.const_value = ir.tensor(feeds[name], name=name)
    return copy


_MODEL, _INPUTS, _TEST = "rule_before.onnx", "inputs.npz", "test_{}.py"

_TEST_TEXT = '''"""Fails while {subject} [{index}] is wrong on the model beside this file.

{reason}
"""

from pathlib import Path

from onnx_passes.certifying.regression import still_wrong


def test_{name}():
    reason = still_wrong({subject!r}, {index}, Path(__file__).parent, exact={exact})
    assert reason is None, reason


if __name__ == "__main__":
    test_{name}()
'''


def still_wrong(subject: str, index: int, folder: Path, *, exact: bool = False) -> str | None:
    """Apply a rule to the model of a refutation, and return what is wrong, or None.

    `folder` is one that ``certify`` wrote. With `exact`, any difference in bits counts.
    UsageError if the rule or the model is not there.
    """
    found = resolve(subject)
    rules = rules_of(found)
    if index >= len(rules) or not (folder / _MODEL).is_file():
        missing = f"rule {index} of {subject}" if index >= len(rules) else f"{folder / _MODEL}"
        raise UsageError(f"{missing} is not there", help="write the refutation again: certify")
    model = ir.load(folder / _MODEL)
    cls = found if isinstance(found, type) else type(found)
    allowed = frozenset(getattr(cls, "interface_changes", ()))
    declared = next((c for c in contracts_of(cls) if isinstance(c, Tolerance)), None)
    trial = Examiner(rules[index], allowed, declared).examine(
        model, "regression test", [_inputs(model, folder)]
    )
    fault = trial.fault or trial.loose or (trial.inexact if exact else None)
    return None if fault is None else fault.text()


def _inputs(model: ir.Model, folder: Path) -> Mapping[str, Array]:
    if (folder / _INPUTS).is_file():
        with np.load(folder / _INPUTS, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    return next(samples(model.graph.inputs, 1, special=False, seed=0))


def write_regression(
    fault: Fault, subject: str, index: int, folder: Path, declared: object
) -> Path:
    """Write the model of a refutation and a test that fails while the rule is wrong.

    It is also ``repro.py`` where the folder has none. UsageError if it cannot be written.
    """
    words = re.sub(r"\W+", "_", f"{subject.rpartition(':')[2]}_{index}").strip("_").lower()
    values = {
        "subject": subject,
        "index": index,
        "name": words,
        "reason": fault.reason.replace("\\", "/").replace('"', "'"),
        "exact": isinstance(declared, Equality) and fault.breaks == "bits",
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        save_model(fault.before, folder / _MODEL, external_data="inline")
        test = folder / _TEST.format(words)
        test.write_text(_TEST_TEXT.format(**values), "utf-8")
        if not (folder / "repro.py").exists():
            (folder / "repro.py").write_text(_TEST_TEXT.format(**values), "utf-8")
            (folder / "README.md").write_text(f"{fault.text()}\n", "utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {folder}: {error.strerror or error}") from error
    return test
