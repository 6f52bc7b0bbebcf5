import math
from html.parser import HTMLParser

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from onnx_passes.report.pages import Dot, DotChart, environment

PAGE = environment().from_string(
    "{% import 'parts.html' as parts %}"
    '<p title="{{ title }}">{{ text }}{{ parts.code(text, title) }}{{ text }}</p>'
)


class Reader(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.tags, self.data, self.attributes = [], "", {}
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes.update(attrs)

    def handle_data(self, data):
        self.data += data


nasty = st.text(st.sampled_from("<>&\"'/=-!x {}% \n\x00\x1b\u202e]")) | st.text()


@given(nasty, nasty)
def test_no_text_and_no_attribute_becomes_markup(text, attribute):
    read = Reader(PAGE.render(text=text, title=attribute))
    assert read.tags == ["p", "code"]
    assert list(read.attributes) == ["title"]
    assert not set("\x00\x1b\u202e") & set(read.data + read.attributes["title"])


def test_a_long_name_keeps_its_ends():
    code = environment().get_template("parts.html").module.code
    shown = Reader(str(code("start" + "x" * 10_000 + "end"))).data
    assert len(shown) < 420
    assert shown.startswith("start")
    assert shown.endswith("end")


errors = st.floats(min_value=0) | st.sampled_from([0.0, math.inf, math.nan, 5e-324])


def drawn(name, chart):
    return str(getattr(environment().get_template("charts.html").module, name)(chart))


def places(chart):
    return [chart.place(dot.error) for dot in chart.rows]


def test_an_error_lies_left_of_its_limit_exactly_when_it_is_smaller():
    chart = DotChart([Dot("in", 1e-7, 1e-5, "", "good"), Dot("out", 1e-2, 1e-5, "", "bad")])
    inside, outside = places(chart)
    assert inside < chart.place(1e-5) < outside
    assert drawn("dots", chart).count('class="limit"') == 2


def test_zero_and_infinity_have_places_beside_the_axis():
    rows = [Dot("0", 0.0, None, "", "good"), Dot("1", 1e-9, None, "", "good")]
    zero, small, infinite = places(DotChart([*rows, Dot("inf", math.inf, 1.0, "", "bad")]))
    assert zero < small < infinite <= 100


@settings(suppress_health_check=[HealthCheck.too_slow])  # the first draw reads every module
@given(st.lists(st.tuples(errors, st.none() | errors), min_size=1, max_size=8))
def test_any_errors_can_be_drawn(pairs):
    chart = DotChart([Dot("x", error, limit, "", "good") for error, limit in pairs])
    assert all(0 <= place <= 100 for place in places(chart))
    assert "nan" not in drawn("dots", chart)
