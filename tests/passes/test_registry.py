import pytest

from onnx_passes.errors import ConfigError, UnknownPassError
from onnx_passes.passes import registry
from onnx_passes.passes.base import RewriteRulePass, Transformation


@pytest.fixture(autouse=True)
def _own_registry(monkeypatch):
    registry.discover()
    monkeypatch.setattr(registry, "_passes", dict(registry._passes))
    monkeypatch.setattr(registry, "_groups", {k: [*v] for k, v in registry._groups.items()})


def make(name: str, module: str = "somewhere") -> type[Transformation]:
    return type(name, (Transformation,), {"__module__": module, "call": lambda self, m: None})


def test_a_pass_is_known_by_three_names_and_its_groups():
    cls = registry.register("tidy")(registry.register()(make("MergeWidgets")))
    assert registry.lookup("merge-widgets") == registry.lookup("MergeWidgets") == [cls]
    assert registry.lookup("tidy") == [cls]


def test_a_group_keeps_the_order_of_registration():
    first, second = make("ZFirst"), make("ASecond")
    for cls in (first, second):
        registry.register("tidy")(cls)
    assert registry.lookup("tidy") == [first, second]


def test_an_unknown_name_is_answered_with_the_closest():
    with pytest.raises(
        UnknownPassError, match="no pass or group is named 'fold-constant'"
    ) as e:
        registry.lookup("fold-constant")
    assert "did you mean 'fold-constants'?" in str(e.value)


def test_two_passes_of_one_name_clash():
    registry.register()(make("MergeWidgets", "here"))
    with pytest.raises(ConfigError, match="two passes are named 'merge-widgets'"):
        registry.register()(make("MergeWidgets", "there"))


def test_a_module_imported_again_replaces_its_passes():
    registry.register("tidy")(make("MergeWidgets"))
    again = registry.register("tidy")(make("MergeWidgets"))
    assert registry.lookup("merge-widgets") == registry.lookup("tidy") == [again]


def test_a_group_may_not_take_the_name_of_a_pass():
    with pytest.raises(ConfigError, match="two passes are named 'fold-constants'"):
        registry.register("fold-constants")(make("MergeWidgets"))


def test_only_passes_are_registered():
    with pytest.raises(ConfigError, match="is not a pass"):
        registry.register()(int)


def test_a_pass_that_cannot_be_made_is_refused_with_what_it_lacks():
    unfinished = type("MergeWidgets", (RewriteRulePass,), {})
    with pytest.raises(ConfigError, match=r"MergeWidgets cannot be made: it lacks .*in_place"):
        registry.register()(unfinished)


def test_collect_takes_names_and_classes():
    cls = make("MergeWidgets")
    names = [c.name for c in registry.collect(["topological-sort", cls])]
    assert names == ["topological-sort", "merge-widgets"]


def test_a_group_has_what_makes_others_unused_before_them():
    kinds = ("outputs", "results", "nodes", "functions", "initializers", "opsets")
    found = [cls.name for cls in registry.lookup("remove-unused")]
    assert found == [f"remove-unused-{kind}" for kind in kinds]
    assert registry.groups()["remove-unused"] == registry.lookup("remove-unused")
