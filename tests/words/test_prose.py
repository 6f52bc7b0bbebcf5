from tests.words import prose

PAGE = """# A title is not prose

One line
and its end. A second sentence: with a colon.

| a | table |
|---|---|

- an item
  over two lines
- another item

    code that is indented

```python
code = "in a fence"
```
"""
MODULE = '''"""A module. It has two sentences."""

LIMIT = 3
"""What a field holds."""


def function(first, second):
    """Return nothing.

    Before: Add(x, 0)
    After: x

    Args:
        first: Text that goes on
            in a second line.
        second: Text.
    """  # a remark
    # Remarks on lines that follow each other
    # are one.
    return None  # noqa: RET501
'''


def test_a_page_without_tables_code_and_titles():
    assert list(prose.of_page(PAGE)) == [
        (3, "One line and its end. A second sentence: with a colon."),
        (9, "an item over two lines"),
        (11, "another item"),
    ]


def test_docstrings_of_modules_functions_and_fields():
    assert list(prose.docstrings(MODULE)) == [
        (1, "A module. It has two sentences."),
        (4, "What a field holds."),
        (8, "Return nothing."),
        (10, "Before: Add(x, 0)"),
        (11, "After: x"),
        (14, "first: Text that goes on in a second line."),
        (16, "second: Text."),
    ]


def test_comments_of_lines_that_follow_each_other_are_one():
    found = [text for _, text in prose.comments(MODULE)]
    assert found == ["a remark", "Remarks on lines that follow each other are one."]


def test_sentences_end_at_marks_and_code_is_one_word():
    text = "See [the page](a.md). It runs `a b. c`; then it ends: here."
    assert prose.sentences(text) == ["See the page.", "It runs CODE; then it ends: here."]
    assert prose.sentences(text, ".:;")[1:] == ["It runs CODE;", "then it ends:", "here."]
