from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2 import UndefinedError

from onnx_passes.report.page.rendering import environment

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


def test_a_name_that_the_page_lacks_is_an_error():
    with pytest.raises(UndefinedError, match="nodse"):
        environment().from_string("{{ nodse }}").render(nodes=1)


def test_numbers_are_short():
    assert environment().from_string("{{ x }} {{ n }}").render(x=1 / 3, n=7) == "0.333333 7"
