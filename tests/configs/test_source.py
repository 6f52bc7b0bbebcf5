from onnx_passes.configs.source import Source


def test_an_excerpt_underlines_the_part():
    source = Source("cfg.yaml", "passes:\n  - fold-constats\n")
    assert source.span(12, 25).where == (
        " --> cfg.yaml:2:5\n  |\n2 |   - fold-constats\n  |     ^^^^^^^^^^^^^"
    )


def test_the_gutter_fits_the_line_number():
    lines = Source("f", "\n" * 99 + "x").span(99).where.splitlines()
    assert lines[2:] == ["100 | x", "    | ^"]


def test_a_command_line_text_has_columns_only():
    assert Source("--set", "a.b=1", is_file=False).span(2).place == "--set, column 3"


def test_tabs_and_escape_sequences_do_not_move_the_cursor():
    where = Source("f", "\ta: \x1b[31mx").span(4, 9).where
    assert "\x1b" not in where
    assert "\t" not in where


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


def test_an_offset_is_the_inverse_of_a_span():
    source = Source("f", "ab\ncd\r\nef")
    assert [source.span(i).offset for i in (0, 1, 3, 4, 7, 8)] == [0, 1, 3, 4, 7, 8]
