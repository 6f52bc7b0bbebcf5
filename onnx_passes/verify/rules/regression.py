"""A refutation kept as a test: the rule, applied again to the model that broke it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.contracts import Equality, Tolerance, contracts_of
from onnx_passes.errors import UsageError
from onnx_passes.model.save import save_model
from onnx_passes.verify.rules.applying import rules_of
from onnx_passes.verify.rules.fault import Fault
from onnx_passes.verify.rules.fuzz_check import Examiner
from onnx_passes.verify.rules.job import resolve
from onnx_passes.verify.rules.replay import samples

_MODEL, _INPUTS, _TEST, _SCRIPT = "rule_before.onnx", "inputs.npz", "test_{}.py", "repro.py"

_TEST_TEXT = '''"""Fails while {subject} [{index}] is wrong on the model beside this file.

{reason}
"""

from pathlib import Path

from onnx_passes.verify.rules.regression import still_wrong


def test_{name}():
    reason = still_wrong({subject!r}, {index}, Path(__file__).parent, exact={exact})
    assert reason is None, reason
'''

_SCRIPT_TEXT = '''"""Apply {subject} [{index}] to the model beside this file.

Exit code 1: it is still wrong, and what is wrong is printed. 0: it is right.
"""

import sys
from pathlib import Path

from onnx_passes.verify.rules.regression import still_wrong

reason = still_wrong({subject!r}, {index}, Path(__file__).parent, exact={exact})
print(reason or "the rule is right on this model")
sys.exit(reason is not None)
'''


def still_wrong(subject: str, index: int, folder: Path, *, exact: bool = False) -> str | None:
    """Apply a rule to the model of a refutation, and return what is wrong, or None.

    Args:
        subject: ``module:object``, as ``--rules`` takes it.
        index: Which rule of the subject.
        folder: What ``certify`` wrote.
        exact: Whether any difference in bits counts.

    Raises:
        UsageError: The rule, or the model of the refutation, is not there.
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

    A ``repro.py`` is added where the folder has none.

    Args:
        fault: The refutation.
        subject: The pass or rule as text, with its module.
        index: Number of the rule.
        folder: Where model and test are written.
        declared: The contract of the pass; None for none.

    Raises:
        UsageError: The folder cannot be written.
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
        if not (folder / _SCRIPT).exists():
            (folder / _SCRIPT).write_text(_SCRIPT_TEXT.format(**values), "utf-8")
            (folder / "README.md").write_text(f"{fault.text()}\n", "utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {folder}: {error.strerror or error}") from error
    return test
