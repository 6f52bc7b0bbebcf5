import math

import onnx_ir as ir
import pytest

from onnx_passes.configs.pipeline_files import load_config, shipped_configs
from onnx_passes.configs.resolve import resolve
from onnx_passes.configs.yaml_tree import MAX_DEPTH, Source, parse_yaml
from onnx_passes.errors import ConfigError
from tests.tables import each_of


def test_an_excerpt_underlines_the_part():
    source = Source("cfg.yaml", "passes:\n  - fold-constats\n")
    assert source.span(12, 25).where == (
        " --> cfg.yaml:2:5\n  |\n2 |   - fold-constats\n  |     ^^^^^^^^^^^^^"
    )


def test_carets_stand_below_wide_characters():
    text, caret = Source("f", "名: x").span(3, 4).where.splitlines()[2:]
    assert text == "1 | 名: x"
    assert caret == "  |     ^"


def test_long_lines_are_cut_around_the_place():
    where = Source("f", "a" * 5000 + "HERE" + "b" * 5000).span(5000, 5004).where
    assert max(map(len, where.splitlines())) < 140
    text, caret = where.splitlines()[2:]
    assert text[caret.index("^") :].startswith("HERE")


def test_every_line_break_of_yaml_counts():
    source = Source("f", "a\r\nb\rc\x85d\u2028e")
    assert [source.line(i) for i in range(5)] == ["a", "b", "c", "d", "e"]
    assert source.span(len(source.text) - 1).place == "f:5:1"


def data(text):
    return parse_yaml(Source("f.yaml", text)).data


def complaint(text):
    with pytest.raises(ConfigError) as caught:
        data(text)
    return caught.value


@each_of(
    "text, value",
    ("1e-5", 1e-5),
    ("-1.5E+3", -1500.0),
    (".5", 0.5),
    ("-.inf", -math.inf),
    ("017", 17),
    ("0x1F", 31),
    ("0o17", 15),
    ("-3", -3),
    ("on", "on"),
    ("no", "no"),
    ("12:30:45", "12:30:45"),
    ("2024-01-01", "2024-01-01"),
    ("~", None),
    ("True", True),
    ("'1'", "1"),
    ("!!str 1", "1"),
    ("!!float 1", 1.0),
    (r'"\ud83d\ude00"', "\U0001f600"),
)
def test_scalars_follow_the_core_schema(text, value):
    found = data(text)
    assert found == value
    assert type(found) is type(value)


@each_of(
    "text, message, place",
    ("a: 1\nb: 2\na: 3", "the key 'a' is given twice", "3:1"),
    ("a:\n\tb: 1", "a tab indents this line", "2:1"),
    ("a: 1\nb\t: 1", "a tab stands where", "2:2"),
    ("a: [1,\n  2", "not valid YAML", "2:4"),
    ("a: 'x", "not valid YAML", "1:6"),
    ("a: 1\n---\nb: 1", "a second YAML document", "2:1"),
    ("a: !!python/object:os.system x", "tag '!!python/object:os.system'", "1:4"),
    ("a: !mine {}", "tag '!mine'", "1:4"),
    ("? [1]\n: 2", "a key must be text", "1:3"),
    ("a: &x [*x]", "nested more than", "1:4"),
    ("a: *nowhere", "not valid YAML", "1:4"),
    ("a: !!int x", "cannot be read as int", "1:4"),
    ("a: !!bool maybe", "cannot be read as bool", "1:4"),
    ('a: "\\UFFFFFFFF"', "not valid YAML", "1:"),
    ("a: b\x00c", "U+0000", "1:5"),
    ("a: b\n c\x07", "U+0007", "2:3"),
    ('a: "\\ud800"', "half a character", "1:4"),
    ('{"\\udc00": 1}', "half a character", "1:2"),
    ("%YAML 3.0\n---\na: 1", "not valid YAML", "1:1"),
)
def test_complaints_point_at_the_place(text, message, place):
    error = complaint(text)
    assert message in error.message
    assert f"f.yaml:{place}" in error.where


def test_what_is_not_closed_is_named_by_its_beginning():
    assert complaint("a: 1\nb: [1,\n  2").help == "close what begins at line 2, column 4"


def test_depth_is_limited():
    assert data("[" * (MAX_DEPTH - 1) + "]" * (MAX_DEPTH - 1)) is not None
    assert "nested more than" in complaint("[" * 2000).message


def test_aliases_within_aliases_are_limited_in_depth():
    chain = "\n".join(f"a{i}: &a{i} [*a{i - 1}]" for i in range(1, 500))
    assert "nested more than" in complaint(f"a0: &a0 1\n{chain}").message


def test_alias_bombs_are_refused():
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 9)]
    assert "more than 100000 values" in complaint("\n".join(lines)).message


# Nodes out of order are not a fault: every preset puts them in order before it checks.


@each_of("config", *shipped_configs())
def test_a_preset_sorts_nodes_before_its_checker_refuses_their_order(config):
    model = ir.from_onnx_text("""<ir_version: 10, opset_import: ["" : 18]>
        g (float[3] x) => (float[3] o) { t = Exp(x) o = Neg(t) }""")
    model.graph.extend(reversed(list(model.graph)))
    for step in resolve(load_config(config)).passes[:2]:
        model = step.make({}, {})(model).model
    assert [node.op_type for node in model.graph] == ["Exp", "Neg"]
