import pytest

from onnx_passes.errors import ConfigError, UnknownPassError
from onnx_passes.passes import registry
from onnx_passes.passes.base import RewriteRulePass, Transformation
from onnx_passes.passes.registry import LIBRARY, Scope, scope_of

pytestmark = pytest.mark.usefixtures("own_registry")


def make(name: str, module: str = "somewhere") -> type[Transformation]:
    return type(name, (Transformation,), {"__module__": module, "call": lambda self, m: None})


def test_a_pass_is_known_by_three_names_and_its_groups():
    cls = registry.register("tidy")(registry.register()(make("MergeWidgets")))
    assert registry.lookup("merge-widgets") == registry.lookup("MergeWidgets") == [cls]
    assert registry.lookup("tidy") == [cls]


def test_an_unknown_name_is_answered_with_the_closest():
    with pytest.raises(
        UnknownPassError, match="no pass or group is named 'fold-constant'"
    ) as e:
        registry.lookup("fold-constant")
    assert "did you mean 'fold-constants'?" in str(e.value)


def test_a_module_that_is_not_imported_is_named(tmp_path, monkeypatch):
    (tmp_path / "fold_constant.py").touch()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UnknownPassError, match="--rules fold_constant:CLASS"):
        registry.lookup("fold-constant")


def test_two_passes_of_one_name_clash():
    registry.register()(make("MergeWidgets", "here"))
    with pytest.raises(ConfigError, match="two passes are named 'merge-widgets'"):
        registry.register()(make("MergeWidgets", "there"))


def test_a_module_imported_again_replaces_its_passes():
    registry.register("tidy")(make("MergeWidgets"))
    again = registry.register("tidy")(make("MergeWidgets"))
    assert registry.lookup("merge-widgets") == registry.lookup("tidy") == [again]


def test_a_name_of_the_library_is_a_clash_where_no_pipeline_imports_it():
    cls = registry.register("fold-constants")(make("MergeWidgets"))
    with pytest.raises(ConfigError, match="two passes are named 'fold-constants'"):
        registry.collect(["fold-constants"])
    assert cls not in registry.lookup("fold-constants")
    assert registry.lookup("merge-widgets") == [cls]
    assert registry.lookup("fold-constants", scope=Scope(["somewhere"])) == [cls]


def test_a_pass_may_come_before_that_of_the_library():
    (ours,) = registry.lookup("fold-constants")
    for name in ("fold-constants", "FoldConstants"):
        registry._passes.pop(name)
    with registry.for_pipeline():
        own = registry.register("fold-constants")(make("FoldConstants", "mine"))
        more = registry.register("fold-constants")(make("FoldMore", "mine"))
    registry.register()(ours)
    assert registry.lookup("fold-constants") == registry.lookup("FoldConstants") == [ours]
    scope = Scope(["mine"])
    assert registry.lookup("fold-constants", scope=scope) == [own, more]
    assert registry.lookup("FoldConstants", scope=scope) == [own]


def test_only_passes_are_registered():
    with pytest.raises(ConfigError, match="is not a pass"):
        registry.register()(int)


def test_a_decorator_without_parentheses_is_recognised():
    with pytest.raises(ConfigError, match=r"MergeWidgets .*without parentheses"):
        registry.register(type("MergeWidgets", (), {}))


def test_a_pass_that_cannot_be_made_is_refused_with_what_it_lacks():
    unfinished = type("MergeWidgets", (RewriteRulePass,), {})
    with pytest.raises(ConfigError, match=r"MergeWidgets cannot be made: it lacks .*in_place"):
        registry.register()(unfinished)
    unfinished = type("MergeWidgets", (Transformation, RewriteRulePass), {})
    with pytest.raises(ConfigError, match=r"lacks pattern, rewrite") as caught:
        registry.register()(unfinished)
    assert "define them" in str(caught.value.help)


def test_a_group_has_what_makes_others_unused_before_them():
    kinds = ("outputs", "nodes", "functions", "initializers", "opsets")
    found = [cls.name for cls in registry.lookup("remove-unused")]
    assert found == [f"remove-unused-{kind}" for kind in kinds]
    assert registry.groups()["remove-unused"] == registry.lookup("remove-unused")


def test_a_name_that_several_passes_were_registered_under_is_a_group():
    first, second = make("MergeWidgets"), make("MergeMoreWidgets")
    for cls in (second, first):
        registry.register("widgets")(registry.register("merge-widgets")(cls))
    assert registry.lookup("merge-widgets") == [second, first]
    assert registry.lookup("MergeWidgets") == [first]
    assert registry.groups()["merge-widgets"] == [second, first]
    assert registry.unique_name(first) == "MergeWidgets"
    assert registry.unique_name(second) == "merge-more-widgets"


def test_a_group_of_its_module_keeps_the_name_of_a_class():
    member = registry.register("merge-widgets")(make("MergeOneWidget"))
    cls = registry.register("more-widgets")(make("MergeWidgets"))
    assert registry.lookup("merge-widgets") == [member]
    assert registry.lookup("MergeWidgets") == registry.lookup("more-widgets") == [cls]
    assert registry.unique_name(cls) == "MergeWidgets"


def test_what_a_pipeline_imports_takes_names_for_it_alone():
    (ours,) = registry.lookup("fold-constants")
    with registry.for_pipeline():
        first = registry.register("fold-constants")(make("FoldConstants", "mine.folding"))
        second = registry.register("fold-constants")(make("FoldSizes", "mine.sizes"))
    scope = Scope(["mine"])
    assert registry.lookup("fold-constants", scope=scope) == [first, second]
    assert registry.lookup("FoldConstants", scope=scope) == [first]
    assert registry.lookup("fold-constants") == [ours]
    assert registry.lookup("fold-constants", scope=Scope(["other"])) == [ours]
    assert first.in_place_of == f"{ours.__module__}.FoldConstants"
    assert set(registry.all_passes(scope)) == {*registry.all_passes(), first, second}
    assert registry.unique_name(first) == "FoldConstants"


def test_its_passes_join_groups_and_take_the_names_of_groups():
    with registry.for_pipeline():
        joined = registry.register("cleanup")(make("MergeWidgets", "mine"))
        taken = registry.register()(make("RemoveUnused", "mine"))
    scope = Scope(["mine"])
    assert joined in registry.lookup("cleanup", scope=scope)
    assert len(registry.lookup("cleanup")) > 1
    assert registry.lookup("remove-unused", scope=scope) == [taken]
    assert taken not in registry.lookup("remove-unused")


def test_a_sequence_of_the_library_means_passes_of_the_library():
    assert scope_of(registry.lookup("streamline")[0], ["mine"]) is LIBRARY
    assert scope_of(make("MergeWidgets", "mine"), ["mine"]).modules == ["mine"]
