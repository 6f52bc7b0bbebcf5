"""Judge the frozen set of rules, and compare with the verdicts that are stored.

A verdict that changes shows that the framework or the verifier judges otherwise than before.
Then certificates of other rules may be wrong too, and the number of the verifier is raised.
The key of the code that judged is stored beside the verdicts: while it is the same, they are.

    python -m tests.certifying.frozen_set renew       # judge, if the code has changed
    python -m tests.certifying.frozen_set check NAME  # end at a difference; NAME is first
"""

from __future__ import annotations

import json
import logging
import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from onnx_passes.certifying.certificates import VERIFIER
from onnx_passes.certifying.certification import verdict_of
from onnx_passes.certifying.definitions import Definitions, package_folder
from onnx_passes.certifying.rewrite_rule import Job
from tests.certifying.frozen_rules import FrozenRule, frozen_rules

STORED = Path(__file__).with_name("frozen_verdicts.jsonl")
"""The number of the verifier, and one outcome a line."""

ROOT = Path(__file__).parents[2]
RAISE = "raise VERIFIER in onnx_passes/certifying/certificates.py, and run: make certify"

_NO_LIMIT = 1e6
"""Seconds: an outcome must not depend on the machine, so that models are the limit."""


@dataclass(frozen=True)
class Outcome:
    """What the verifier says of one rule, as far as a certificate rests on it.

    Attributes:
        rule: The name of the rule.
        verdict: The verdict.
        claim: The arithmetics in which it is proved, and for which sizes.
        contract: The contract that it keeps.
    """

    rule: str
    verdict: str
    claim: str
    contract: str


def judge(frozen: FrozenRule) -> Outcome:
    """Test and prove one rule as ``onnx-passes certify`` does, on fewer models."""
    job = Job("frozen:rules", seconds=_NO_LIMIT, models=frozen.models)
    found: dict[str, Any] = verdict_of(frozen.subject, frozen.rule, job)
    verdict, contract = found["verdict"], found["contract"] or ""
    claim = _claim(found["proof"]) if verdict == "proved" else ""
    return Outcome(frozen.name, verdict, claim, contract)


def _claim(proof: dict[str, Any]) -> str:
    """Return what is proved, without the numbers of the templates."""
    proved = [j for j in proof["judgements"] if j["outcome"] == "proved"]
    return ", ".join(f"{j['arithmetic']}: {_sizes(**j['coverage'])}" for j in proved)


def _sizes(everywhere: bool, text: str, **_: object) -> str:
    if not everywhere:
        return "listed shapes"
    return f"all {'ranks and ' if 'all ranks' in text else ''}sizes"


def run_frozen_set(
    *, first: str = "", stop: bool = False, every: int = 1, start: int = 0
) -> list[Outcome]:
    """Judge the rules, in their order.

    Args:
        first: The name of a rule that is judged before the others.
        stop: Whether to end with the first outcome that is not the stored one.
        every: How many rules there are for one that is judged.
        start: The place of the first rule.
    """
    logging.getLogger("onnx_ir").setLevel(logging.CRITICAL)
    stored = set(stored_outcomes()) if stop else set()
    outcomes: list[Outcome] = []
    for frozen in sorted(frozen_rules(), key=lambda f: f.name != first)[start::every]:
        outcomes.append(judge(frozen))
        if stop and outcomes[-1] not in stored:
            break
    return outcomes


def stored_outcomes() -> list[Outcome]:
    """Return the outcomes that are stored, in the order of the rules."""
    _, *lines = STORED.read_text().splitlines()
    return [Outcome(**json.loads(line)) for line in lines]


def stored_head() -> dict[str, Any]:
    """Return the number of the verifier and the key of the code of the stored outcomes."""
    head: dict[str, Any] = json.loads(STORED.read_text().splitlines()[0])
    return head


def code_key() -> str:
    """Return the key of all code that judges: the verifier, the framework, and the rules."""
    folders = {"onnx_passes": package_folder("onnx_passes"), "tests": ROOT / "tests"}
    definitions = Definitions({**folders, "benchmarks": ROOT / "benchmarks"}, framework=())
    rules = definitions.key("tests.certifying.frozen_rules", "frozen_rules")
    return f"{definitions.key(verdict_of.__module__, verdict_of.__name__)}.{rules}"


def differing(outcomes: list[Outcome]) -> list[Outcome]:
    """Return the outcomes that are not the stored ones."""
    stored = set(stored_outcomes())
    return [outcome for outcome in outcomes if outcome not in stored]


def renew() -> list[Outcome]:
    """Judge the rules by code that has changed, and store its key.

    Other sizes in a claim are stored: they follow from what is drawn, and no proof is wrong
    for that.

    Returns:
        The outcomes with another verdict or contract, though the number of the verifier is
        the same. Nothing is stored then.
    """
    head = {"verifier": VERIFIER, "code": code_key()}
    if head == stored_head():
        return []
    outcomes = run_frozen_set()
    known = {replace(outcome, claim="") for outcome in stored_outcomes()}
    other = [one for one in outcomes if replace(one, claim="") not in known]
    if other and stored_head()["verifier"] == VERIFIER:
        return other
    lines = [head, *map(asdict, outcomes)]
    STORED.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return []


def _main(command: str, argument: str = "") -> int:
    """Return 1 if an outcome is not the stored one; print each that is not."""
    if command == "renew":
        other = renew()
    else:
        other = differing(run_frozen_set(first=argument, stop=True))
    for outcome in other:
        print(json.dumps(asdict(outcome)))
    if other and command == "renew":
        print(f"other verdicts: {RAISE}")
    return int(bool(other))


if __name__ == "__main__":
    sys.exit(_main(*sys.argv[1:]))
