"""Options of ``onnx-passes reduce`` that exclude, need or contradict each other."""

from __future__ import annotations

import math

from onnx_passes.cli.data_options import refuse_without_data
from onnx_passes.cli.reduce_on_data import refuse_data
from onnx_passes.errors import UsageError
from onnx_passes.plain import PlainMapping

# Which checks an option says something to.
_OF = {
    "warm": ("--check",),
    "fail_code": ("--check",),
    "ignore_fail_code": ("--check",),
    "fail_regex": ("--check",),
    "against": ("--engine",),
    "rtol": ("--engine", "--pass"),
    "atol": ("--engine", "--pass"),
}


def check_options(given: PlainMapping) -> None:
    """Check what the words alone show.

    Raises:
        UsageError: Options do not go together, or a number is out of range.
    """
    check = _one_check(given)
    for name, checks in _OF.items():
        if given[name] not in (None, (), False) and check not in checks:
            option = f"--{name.replace('_', '-')}"
            what = ": what to hold against it" if name == "against" else f", not {check}"
            raise UsageError(f"{option} needs {' or '.join(checks)}{what}")
    if given["data"]:
        refuse_data(given)
    else:
        refuse_without_data({name: v for name, v in given.items() if name != "jobs"})
    if given["jobs"] > 1 and check != "--check" and not given["data"]:
        raise UsageError(f"-j {given['jobs']} needs --check: {check} is asked one at a time")
    for name in ("rtol", "atol", "timeout"):
        number = given[name]
        low = "more than 0" if name == "timeout" else "0 or more"
        if number is not None and (
            not math.isfinite(number) or number < 0 or (name == "timeout" and not number)
        ):
            raise UsageError(f"--{name} {number:g}: it has to be a number, {low}")
    both = sorted({*given["fail_code"]} & {*given["ignore_fail_code"]})
    if both:
        raise UsageError(
            f"--fail-code {both[0]} and --ignore-fail-code {both[0]} contradict each other",
            help="give each exit code to one of them",
        )
    if given["no_reduce_inputs"] and given["no_reduce_outputs"]:
        raise UsageError(
            "--no-reduce-inputs and --no-reduce-outputs together leave nothing to take away"
        )
    if given["against"] == "golden" and not given["load_inputs"]:
        raise UsageError(
            "--against golden needs --load-inputs: the golden values",
            help="record them: onnx-passes compare MODEL --outputs all --save-outputs FILE",
        )


def _one_check(given: PlainMapping) -> str:
    asked = [
        option
        for option, value in (
            ("--check", given["check"] is not None),
            ("--check-function", given["check_function"]),
            ("--engine", given["engine"]),
            ("--pass", given["passes"] or given["config"]),
            ("--interactive", given["interactive"]),
        )
        if value
    ]
    if len(asked) != 1:
        raise UsageError(
            f"{' and '.join(asked)} are {len(asked)} checks"
            if asked
            else "nothing says what fails",
            help="give one of --check, --check-function, --engine, --pass and --interactive",
        )
    return asked[0]
