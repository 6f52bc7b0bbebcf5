"""A composed pass has the contract of its parts."""

import json
from textwrap import dedent

import pytest

from tests.cli.modules import read_json
from tests.tables import each_row

MODULE = """
from onnx_passes import passes
from onnx_passes.passes.base import RewriteRulePass, Transformation

{contract}
@passes.register()
class DropIdentity(Transformation, RewriteRulePass):
    def pattern(self, op, x): return op.Identity(x)
    def rewrite(self, op, x): return {result}

@passes.register()
class Tidy(passes.ComposePass):
    __passes__ = ("count-nodes-of-mine", DropIdentity, "cleanup")

@passes.register()
class CountNodesOfMine(passes.Analysis):
    def analyse(self, model): return len(model.graph)
"""


@pytest.fixture
def run(cli, model, write):
    def call(contract, result="x"):
        module = f"tidy_{abs(hash((contract, result))) % 10**9}"
        write(f"{module}.py", dedent(MODULE.format(contract=contract, result=result)))
        config = write("cfg.yaml", json.dumps({"imports": [module], "passes": ["Tidy"]}))
        done = cli("-c", config, "-o", "out.onnx", "--json", "out.json", "-v", model)
        return done, read_json("out.json")["passes"][-1]

    return call


@each_row("""declared | promised
- equality | equality
- tolerance(rtol=1e-4) | tolerance(rtol=0.0001)
- metric('cosine') | metric(cosine)
""")
def test_it_is_held_to_the_weakest_contract_of_its_parts(run, declared, promised):
    done, last = run(f"@passes.verify.{declared}")
    assert last["contract"] == promised
    if "metric" not in declared:
        done.tells(0, "\nVERIFIED")
    assert "declares no contract" not in done.err


def test_it_names_the_part_that_has_none(run):
    done, last = run("")
    assert done.code == 0
    assert "\nVERIFIED" not in done.err
    assert "its part drop-identity declares no contract" in done.err
    assert last["contract"] == "none declared"


def test_a_wrong_part_fails_it(run):
    done, _ = run("@passes.verify.tolerance", "op.Add(x, x)")
    assert done.code == 1
