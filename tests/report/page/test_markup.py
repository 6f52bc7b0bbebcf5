from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from onnx_passes.report.page.markup import named, render, tag


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


nasty = st.text(st.sampled_from("<>&\"'/=-!x \n\x00\x1b\u202e]")) | st.text()


@given(nasty, nasty)
def test_no_text_and_no_attribute_becomes_markup(text, attribute):
    read = Reader(render(tag("p", text, tag("b", text), text, title=attribute)))
    assert read.tags == ["p", "b"]
    assert list(read.attributes) == ["title"]


def test_attributes_are_spelled_as_html_spells_them():
    element = tag(
        "input", class_="a", aria_label="b", checked=True, open=False, id=None, x=1.5
    )
    assert element.attrib == {"class": "a", "aria-label": "b", "checked": "", "x": "1.5"}


def test_a_long_name_keeps_its_ends():
    shown = "".join(named("start" + "x" * 10_000 + "end").itertext())
    assert len(shown) < 420
    assert shown.startswith("start")
    assert shown.endswith("end")
