"""Every name that the seed system (0.4.1) registers means something here."""

from pathlib import Path

from onnx_passes import testing
from onnx_passes.compat.names import is_for_seed, uses_of
from onnx_passes.passes.registry import lookup
from tests.tables import each_of

ALL = (Path(__file__).parent / "seed_names.txt").read_text().split()


@each_of("name", *[name for name in ALL if name != "verify"])
def test_each_is_a_pass_or_a_group(name):
    assert lookup(name)


def test_groups_hold_the_schemas():
    assert {cls.name for cls in lookup("reorder")} == {
        "sink-past-movement",
        "sink-scales",
        "sink-transposes",
        "unify-reshapes",
    }
    assert {cls.name for cls in lookup("algebraic")} == {
        *("absorb-into-comparisons", "eliminate-noop-reduce", "fold-decided-results"),
        *("gather-constants", "gather-terms", "merge-products", "simplify-booleans"),
        *("simplify-lattices", "unify-comparisons"),
    }


def test_a_name_of_both_systems_means_what_its_author_meant():
    assert uses_of("lower-conv") is None
    (use,) = uses_of("lower-conv", for_seed=True)
    assert use.options == {"to": "im2col"}
    names = [use.name for use in uses_of("eliminate-identity", for_seed=True)]
    assert names == ["eliminate-noop-arithmetic", "eliminate-identity"]
    names = [use.name for use in uses_of("reorder", for_seed=True)]
    assert names[0] == "reorder", "the group here, then what merges what meets"
    assert is_for_seed({"passes": [], "model_checker": {}})
    assert not is_for_seed({"passes": [], "verify": True})


def test_a_bare_pass_manager_has_nothing_to_verify():
    assert lookup("verify") == []


def test_passes_of_a_client_with_the_configuration_of_the_seed_system_do_what_they_do_there():
    model = testing.parse(
        """<ir_version: 10, opset_import: ["" : 20]> g (float[1,2,5,5] x, float[3,2,3,3] w)
        => (float[1,3,3,3] y) { y = Conv(x, w) }"""
    )
    (cls,) = lookup("lower-conv")
    assert "Im2Col" not in {n.op_type for n in cls({}, {})(model.clone()).model.graph}
    made = cls({"model_checker": {"full_check": True}}, {})(model.clone()).model
    assert "Im2Col" in {n.op_type for n in made.graph}


@each_of(
    "name, passes",
    ("eliminate.where.EliminateWhereLhs", {"eliminate-constant-where"}),
    ("cleanup.remove.RemoveUnusedNodes", {"remove-unused-nodes", "topological-sort"}),
    ("streamline.reorder.transpose.MoveAddPastTranspose", {"sink-transposes"}),
    ("streamline.reorder.shapes.MoveElementwisePastReshape", {"sink-past-movement"}),
    ("streamline.algebraic.numeric.GroupAdd", {"gather-terms"}),
    ("onnx_passes.passes.inline.qonnx.FoldConstantQONNXQuant", {"inline-qonnx"}),
)
def test_dotted_names_of_classes_mean_what_does_the_same(name, passes):
    assert passes <= {cls.name for cls in lookup(name)}
