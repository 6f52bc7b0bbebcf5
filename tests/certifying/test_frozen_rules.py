"""The number of the verifier is honest: a verdict that may change changes one of these."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

import onnx_passes
from onnx_passes.certifying.certificates import VERIFIER
from tests.certifying.frozen_rules import frozen_rules
from tests.certifying.frozen_set import (
    RAISE,
    ROOT,
    code_key,
    differing,
    run_frozen_set,
    stored_head,
    stored_outcomes,
)
from tests.tables import cases

pytest.importorskip("z3")

_EVERY = 5
PACKAGE = Path(onnx_passes.__file__).parent


class Fault(NamedTuple):
    """One line of the framework or verifier that is changed.

    Attributes:
        path: The file, in the package.
        old: What stands there, once.
        new: What is put in its place.
        shows: The frozen rule that is judged first, because it shows the fault.
    """

    path: str
    old: str
    new: str
    shows: str


FAULTS = {
    case.id: Fault(*case.values)
    for case in cases("""
no second look: passes/rewriting.py | self.look_again(container, touched.nodes, touched.values)
  | self.look_again(container, (), ()) | sub-as-add: back and forth
identities that must stay: passes/rewriting.py | if len({*old}) < len(old) or
  restores_itself(matched, old, new): | if len({*old}) < len(old): | read-directly[identity]
constants that a caller overrides: passes/rewriting.py | with overridable_hidden(model),
  types_of_functions_hidden(model): | with types_of_functions_hidden(model): | add-zero
outputs that are outputs already: passes/replace.py | or replacement.is_graph_output() | or
  False | read-inner-value
bodies are skipped: passes/patterns.py | nested.extend(subgraphs_of(node)) | nested.extend(())
  | sub-as-add-of-initializer: sought in this graph alone
functions are skipped: passes/patterns.py | [*reversed(model.functions.values())] | [] |
  leaky-relu: of unknown type
the first output: passes/patterns.py | and value.index() == self.output | and value.index() ==
  0 | cast-of-indices
operands that commute: passes/rewriting.py | if self.commute else [found] | if not self.commute
  else [found] | multiply-by-ones-by-position
inner values are no outputs: certifying/variants.py | ("inner values are outputs", _tapped) |
  ("inner values are outputs", _bare) | transpose-transpose: in place
forms of one length are equal: certifying/equivalence.py | if form != new.forms[place]: | if
  len(form) != len(new.forms[place]): | mean-as-sum
zeros have signs: certifying/arithmetic_verdicts.py | if found is not None else list(FloatMode)
  | if found is not None else [FloatMode.STRICT] | add-zero
all integers are signed: ops/domains/bitvectors.py | return x < y if signed else solver.ULT(x,
  y) | return x < y | never-negative
ties upwards: ops/domains/reals.py | return solver.ToReal(solver.If(solver.And(tie, odd),
  half_up - 1, half_up)) | return solver.ToReal(half_up) | round-neg
factors in any order: ops/domains/block_terms.py | return tuple(sorted(_rename(monomial,
  renaming))) | return tuple(_rename(monomial, renaming)) | transpose-of-product
the default tolerance: certifying/replay.py | promise = Promise(declared, overrides= | promise
  = Promise(Tolerance(), overrides= | spell-out-quick-gelu-closely
numbers that are not finite: certifying/rewrite_rule.py | bool(getattr(cls, "finite_only",
  False)) | False | no-nan
finite in another mode: certifying/arithmetic_verdicts.py | if mode == FloatMode.FINITE: | if
  mode == FloatMode.STRICT: | no-nan
nothing is replayed: certifying/arithmetic_verdicts.py | found = replayer.compare(feeds,
  real=pair.has_floats) | found = None | never-a-square: but of 1234
constants that are nearly those of the pattern: certifying/template_models.py | surroundings =
  (_AMPLIFIER, *surroundings[:1]) | surroundings = () | there-and-back: nearly zero
""")
}


def test_there_are_thirty_right_rules_and_thirty_wrong_ones_with_names_of_their_own():
    rules = frozen_rules()
    assert [sum(r.right == side for r in rules) for side in (True, False)] == [30, 30]
    assert [r.name for r in rules] == [o.rule for o in stored_outcomes()]
    assert len({r.name for r in rules}) == 60


def test_right_rules_keep_their_promise_and_wrong_ones_do_not():
    for rule, outcome in zip(frozen_rules(), stored_outcomes(), strict=True):
        kept = outcome.verdict in ("proved", "tested") and ", not " not in outcome.contract
        assert kept == rule.right, outcome


def test_the_verdicts_are_of_this_number():
    assert stored_head()["verifier"] == VERIFIER, RAISE


@pytest.mark.timeout(1800)
def test_the_verdicts_are_those_that_are_stored():
    """Judged anew if the code has changed since: make certify stores its key, and judges all.

    One rule in five is judged here, other ones for other code.
    """
    if (code := code_key()) != stored_head()["code"]:
        start = int(code[:8], 16) % _EVERY
        assert not differing(run_frozen_set(every=_EVERY, start=start)), RAISE


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_verdicts_come_out_again():
    assert run_frozen_set() == stored_outcomes()


@pytest.mark.parametrize("name", FAULTS)
def test_each_fault_has_its_place(name):
    fault = FAULTS[name]
    count = (PACKAGE / fault.path).read_text().count(fault.old)
    assert count == 1, (
        f"{fault.path} has {fault.old!r} {count} times, not once: let the fault {name!r} of "
        "this file name what stands there now, with the same change of behaviour"
    )
    assert fault.shows in {rule.name for rule in frozen_rules()}


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", FAULTS)
def test_each_fault_changes_a_verdict(name, tmp_path):
    fault = FAULTS[name]
    shutil.copytree(PACKAGE, tmp_path / "onnx_passes")
    path = tmp_path / "onnx_passes" / fault.path
    path.write_text(path.read_text().replace(fault.old, fault.new))
    ran = subprocess.run(
        [sys.executable, "-P", "-m", "tests.certifying.frozen_set", "check", fault.shows],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (tmp_path, ROOT)))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 1, "no verdict changes: the set lacks a rule that shows this"
    assert ran.stdout.startswith("{"), ran.stderr
