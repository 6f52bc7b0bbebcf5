"""Groups of nodes: scopes of exporters, lifted if alone, split if large."""

import onnx_ir as ir
import pytest

from onnx_passes.report.view.collapsed_scopes import Groups, scope_of


def node(name, **metadata):
    return ir.Node("", "Relu", [], name=name, metadata_props=metadata)


@pytest.mark.parametrize(
    ("named", "scope"),
    [
        ("/encoder/layer.0/Relu", ["encoder", "layer.0"]),
        ("Relu_3", []),
        (None, []),
        ("a/b", ["a"]),
    ],
)
def test_a_scope_is_what_stands_before_the_last_slash(named, scope):
    assert scope_of(node(named)) == scope


def test_metadata_of_an_exporter_comes_first():
    names = "['', 'model', 'model.layer1', 'model.layer1.conv', 'relu']"
    given = node("node_relu_3", **{"pkg.torch.onnx.name_scopes": names})
    assert scope_of(given) == ["model", "layer1", "conv"]
    assert scope_of(node("x", namespace="a/b/relu")) == ["a", "b"]


def leaves(groups, place=0):
    for is_group, child in groups.groups[place].children:
        if is_group:
            assert groups.groups[child].parent == place
            yield from leaves(groups, child)
        else:
            yield child


@pytest.mark.parametrize("count", [1, 48, 49, 500, 5000])
def test_no_group_is_larger_than_a_screen_and_no_node_is_lost(count):
    groups = Groups()
    for place in range(count):
        groups.place(groups.find(0, [f"layer{place // 30}"] if place % 2 else []), place)
    groups.tidy()
    assert sorted(leaves(groups)) == list(range(count))
    assert max(len(group.children) for group in groups.groups) <= 48


def test_what_is_alone_in_its_group_is_lifted():
    groups = Groups()
    groups.place(groups.find(0, ["a", "b"]), 0)
    groups.place(groups.find(0, ["c", "d"]), 1)
    groups.place(groups.find(0, ["c", "d"]), 2)
    groups.tidy()
    assert [kind for kind, _ in groups.groups[0].children] == [False, True]
    (_, place) = groups.groups[0].children[1]
    assert groups.groups[place].name == "c / d"
    assert groups.groups[place].children == [(False, 1), (False, 2)]


def test_parts_of_a_large_group_say_which_nodes_they_hold():
    groups = Groups()
    for place in range(100):
        groups.place(0, place)
    groups.tidy()
    names = [groups.groups[place].name for _, place in groups.groups[0].children]
    assert names == ["nodes 1 to 33", "nodes 34 to 66", "nodes 67 to 100"]
