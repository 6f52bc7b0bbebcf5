"""The verdict of the property test of a pass that is not a rewrite rule, as plain data."""

from __future__ import annotations

import re
from pathlib import Path

from onnx_passes.contracts import Equality, Tolerance
from onnx_passes.errors import OptionError
from onnx_passes.passes.base import Pass
from onnx_passes.plain import PlainDict
from onnx_passes.verify.models.fuzz_pass import TestedPass, fuzz_pass
from onnx_passes.verify.models.trial import PassTrial

SOUGHT = 10
"""Times as many models as a pass is judged on that are drawn at most for those it changes."""

_TEST = '''"""Fails while {name} is wrong on one random model.

{fault}
"""

from {module} import {cls}

from onnx_passes.verify.models import Recipe
from onnx_passes.verify.models.fuzz_pass import examine


def test_{function}():
    fault = examine({cls}, Recipe({seed}, {steps}, {precision!r}, {form!r})).fault
    assert fault is None, fault
'''


def verdict_of_pass(
    cls: type[Pass], *, seconds: float, seed: int, models: int, folder: str | None
) -> PlainDict:
    """Test a pass on random models, and say what follows.

    Args:
        cls: The pass.
        seconds: Wall time at most.
        seed: Of all choices.
        models: Models at most.
        folder: Where a refutation is written to; None for nowhere.

    Returns:
        The keys that a rule's verdict has (``verify.rules.fuzz_verdict``).
    """
    contracts = cls.contracts()
    declared = next((c for c in contracts if isinstance(c, Equality | Tolerance)), None)
    result: PlainDict = {"rule": cls.name, "contract": None, "disagrees": False}
    result["declared"] = None if declared is None else str(declared)
    try:
        most = SOUGHT * models
        tested = fuzz_pass(cls, seconds=seconds, seed=seed, models=models, most=most)
    except OptionError as error:
        reason = f"it needs options, and its class has no example: {error.message}"
        return {**result, "verdict": "undecided", "reason": reason}
    refuted = tested.trial is not None
    result |= {
        "verdict": tested.verdict,
        "reason": _reason(tested),
        "disagrees": refuted,
        "contract": str(declared) if declared and tested.verdict == "tested" else None,
        "tested": {
            "models": tested.models,
            "changed": tested.changed,
            "refused": tested.refused,
            "out_of_time": tested.out_of_time,
        },
    }
    if tested.trial is not None:
        result["counterexample"] = _text(tested.trial)
        if folder is not None:
            result |= _written(cls, tested, Path(folder))
    return result


def _reason(tested: TestedPass) -> str:
    if tested.trial is not None:
        return str(tested.trial.fault)
    if tested.verdict == "undecided":
        return f"out of time: {tested.models} models; give it more with --time"
    if tested.verdict == "never fired":
        return f"it changed none of {tested.models} random models"
    return ""


def _text(trial: PassTrial) -> str:
    lines = [str(trial.fault), "before:", *_indented(trial.before)]
    if trial.after:
        lines += ["after:", *_indented(trial.after)]
    return "\n".join(lines)


def _indented(text: str) -> list[str]:
    return [f"  {line}" for line in text.splitlines()]


def _written(cls: type[Pass], tested: TestedPass, folder: Path) -> dict[str, str]:
    """Write a regression test, and where results differ a reproducer that needs no pass."""
    trial, recipe = tested.trial, tested.recipe
    assert trial is not None
    assert recipe is not None
    found: dict[str, str] = {}
    if trial.model is not None and trial.result is not None:
        from onnx_passes.runtime.ort import OnnxRuntimeEngine
        from onnx_passes.verify.bundle import Bundle, write_bundle

        readme = f"# A pass that is wrong: {cls.name}\n\n{_text(trial)}\n"
        engine = OnnxRuntimeEngine(prepacking=False)
        bundle = Bundle(trial.model, trial.result, trial.feeds, engine=engine, readme=readme)
        folder = write_bundle(bundle, folder)
        found["folder"] = str(folder)
    folder.mkdir(parents=True, exist_ok=True)
    function = re.sub(r"\W+", "_", cls.name)
    test = folder / f"test_{function}.py"
    test.write_text(
        _TEST.format(
            name=cls.name,
            fault=trial.fault,
            module=cls.__module__,
            cls=cls.__qualname__,
            function=function,
            seed=recipe.seed,
            steps=recipe.steps,
            precision=recipe.precision,
            form=recipe.form,
        ),
        "utf-8",
    )
    return {**found, "test": str(test)}
