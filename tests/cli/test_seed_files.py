"""A file whose passes have names of the library's, beside a pipeline: it wins, and says so."""

import json

import onnx
import onnx.parser
import pytest

from tests.cli.modules import read_json

SILU = """\
import onnx_passes.passes as passes
from onnx_passes.ops import DOMAIN
from onnx_passes.ops.swish import Silu
from onnx_passes.passes.base import RewriteRulePass, Transformation

@passes.verify.tolerance
@passes.register("fuse-silu")
class FuseSilu(Transformation, RewriteRulePass):
    @property
    def commute(self): return True
    def pattern(self, op, x): return op.Mul(x, op.Sigmoid(x))
    def rewrite(self, op, x): return op.Silu(x, _domain=DOMAIN)
"""

FOLDING = """\
import onnx_ir as ir
import onnx_passes.passes as passes
from onnx_passes.passes.base import RewriteRulePass, Transformation

class Nothing(Transformation):
    def call(self, model):
        self.state_dict.setdefault("ran", []).append(type(self).__name__)
        return ir.passes.PassResult(model, False)

@passes.register("fold-constants")
class FoldConstants(Nothing): ...

@passes.register("fold-constants")
class FoldMore(Nothing): ...

@passes.verify.equality
@passes.register("everything")
class Everything(passes.compose.ComposePass, Transformation):
    __passes__ = ["fold-constants", "topological-sort"]
"""


@pytest.fixture
def silu_model(tmp_path):
    text = """<ir_version: 10, opset_import: ["" : 19]>
    main (float[2,3] x) => (float[2,3] y) { s = Sigmoid(x) y = Mul(x, s) }"""
    path = tmp_path / "silu.onnx"
    path.write_bytes(onnx.parser.parse_model(text).SerializeToString())
    return path


def kinds():
    return [node.op_type for node in onnx.load("out.onnx").graph.node]


def rows():
    return read_json("report.json")["passes"]


pytestmark = pytest.mark.usefixtures("own_registry")
RUN = ("-o", "out.onnx", "--json", "report.json")


def test_the_pass_of_the_file_runs_in_its_pipeline_alone(cli, write, silu_model):
    write("own_silu.py", SILU)
    write("with.yaml", "imports: [own_silu]\npasses: [fuse-silu]\n")
    write("without.yaml", "passes: [fuse-silu]\n")
    done = cli("-c", "with.yaml", *RUN, silu_model)
    assert (done.code, kinds()) == (0, ["Silu"])
    assert done.err.startswith("VERIFIED")
    assert rows()[0]["notes"] == [
        "this is own_silu.FuseSilu, which the pipeline imports, "
        "in place of onnx_passes.passes.fusion.fuse_silu.FuseSilu"
    ]
    assert cli("-c", "without.yaml", *RUN, silu_model).code == 0
    assert kinds() == ["Sigmoid", "Mul"]  # Swish, which ours makes, is of opset 24
    assert not rows()[0]["notes"]


def test_a_file_for_the_seed_system_keeps_its_own_pass(cli, write, silu_model):
    write("own_silu_too.py", SILU)
    write("cfg.yaml", "imports: [own_silu_too]\npasses: [fuse-silu]\nlogging: {}\n")
    assert cli("-c", "cfg.yaml", *RUN, silu_model).code == 0
    assert rows()[0]["notes"]


def test_several_classes_under_one_name_run_in_order(cli, write, silu_model):
    write("own_folding.py", FOLDING)
    write("cfg.yaml", "imports: [own_folding]\npasses: [fold-constants, FoldConstants]\n")
    cli("-c", "cfg.yaml", *RUN, silu_model).tells(0)
    names = [row["name"] for row in rows()]
    assert names == ["FoldConstants", "fold-more", "FoldConstants"]
    assert all(len(row["notes"]) == 1 for row in rows())


def test_a_sequence_of_the_file_means_the_passes_of_the_file(cli, write, silu_model):
    write("own_sequence.py", FOLDING)
    write("cfg.yaml", "imports: [own_sequence]\npasses: [everything, cleanup]\n")
    assert cli("-c", "cfg.yaml", *RUN, silu_model).code == 0
    noted = [row for row in rows() if any("in place of" in note for note in row["notes"])]
    assert len(noted) == 2


def test_the_same_file_in_two_folders_is_two_files(cli, write, silu_model, tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        write(f"{folder}/own_of_folder.py", SILU)
        write(f"{folder}/cfg.yaml", "imports: [own_of_folder]\npasses: [fuse-silu]\n")
    for folder in ("a", "b", "a"):
        assert cli("-c", f"{folder}/cfg.yaml", *RUN, silu_model).code == 0
        assert (kinds(), len(rows()[0]["notes"])) == (["Silu"], 1)


def test_list_explain_and_certify_know_it(cli, write):
    write("own_silu_again.py", SILU)
    write("cfg.yaml", "imports: [own_silu_again]\npasses: [fuse-silu]\n")
    listed = json.loads(cli("list", "-c", "cfg.yaml", "--json", "fuse-silu").out)
    assert [row["group"] for row in listed] == ["fusion", "own_silu_again"]
    assert "own_silu_again.FuseSilu" in cli("explain", "-c", "cfg.yaml", "fuse-silu").out
    assert "fusion.fuse_silu.FuseSilu" in cli("explain", "fuse-silu").out
    cli(
        *("certify", "-c", "cfg.yaml", "fuse-silu", "--level", "test", "--models", "1"),
        *("--json", "verdict.json"),
    ).tells(0)
    (row,) = read_json("verdict.json")
    assert {rule["verdict"] for rule in row["rules"]} == {"tested"}
    print(row)
