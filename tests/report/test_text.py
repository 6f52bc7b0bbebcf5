from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from onnx_passes.report.text import (
    amount,
    annotation,
    bound,
    change,
    number,
    one_line,
    plural,
    printable,
    size,
    wrapped,
)
from tests.tables import each_of


@each_of(
    "text, shown",
    ("layer.0/conv:0", "layer.0/conv:0"),
    ("naïve 名前", "naïve 名前"),
    ("\x1b[31mred", "\\x1b[31mred"),
    ("\x9b31m", "\\x9b31m"),
    ("user\u202etxt.exe", "user\\u202etxt.exe"),
    ("bad\udc80byte", "bad\\udc80byte"),
    ("a\nb", "a\nb"),
)
def test_what_a_terminal_would_obey_is_shown_instead(text, shown):
    assert printable(text) == shown


@given(st.text(), st.sampled_from(["utf-8", "ascii", "latin-1", "cp1252"]))
def test_any_name_can_be_written_on_any_terminal_on_one_line(text, encoding):
    shown = one_line(text, encoding)
    shown.encode(encoding)
    assert "\n" not in shown
    assert "\x1b" not in shown


@given(st.text("ab 12/.,", max_size=200), st.integers(20, 60), st.integers(0, 4))
def test_a_wrapped_line_has_the_same_words_and_fits(text, width, hang):
    lines = wrapped(text, width, hang)
    assert all(len(line) <= width for line in lines)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")
    for first, second in pairwise(lines):
        end, start = first.split()[-1], second.split()[0]
        broken = len(max(text.split(), key=len)) > width - hang
        if len(end) + len(start) <= width - hang and not broken:
            assert f"{end} {start}" in " ".join(text.split())


def test_a_line_of_github_escapes_what_ends_its_parts():
    line = annotation("FAILED: a, b", "100 %\nwrong", "m,1.onnx")
    assert line == "::error file=m%2C1.onnx,title=FAILED%3A a%2C b::100 %25%0Awrong"


@each_of(
    "count, shown",
    (0, "0 bytes"),
    (999, "999 bytes"),
    (1000, "1.0 kB"),
    (999_999, "1.0 MB"),
    (102_226_010, "102.2 MB"),
    (3 * 10**12, "3000.0 GB"),
)
def test_sizes(count, shown):
    assert size(count) == shown


@given(st.floats(min_value=1e-300, max_value=1e300))
def test_an_error_is_within_the_bound_that_is_printed(error):
    assert float(bound(error)) >= error * (1 - 1e-6)


def test_counts_and_changes():
    assert plural(1, "pass") == "1 pass"
    assert plural(2048, "pass") == "2,048 passes"
    assert plural(0, "rewrite") == "0 rewrites"
    assert change(231, 117) == "-49.4 %"
    assert change(100_000, 99_999) == ""
    assert change(0, 5) == change(5, 5) == ""
    assert number(1e-5) == "1e-5"


def test_an_amount_has_its_unit():
    assert amount(97_724, "B") == "97.7 kB"
    assert amount(-294, "B") == "-294 bytes"
    assert [amount(n, "s") for n in (0.01384, -2e-6, 0, 7)] == [
        "13.84 ms",
        "-0.002 ms",
        "0 s",
        "7 s",
    ]
