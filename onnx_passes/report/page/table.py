"""Tables that fit a phone: there each row stacks its cells, each under its column's name."""

from __future__ import annotations

from collections.abc import Sequence

from onnx_passes.report.page.markup import Child, Element, tag


def table(
    label: str, names: Sequence[str], rows: Sequence[Sequence[Child] | Element]
) -> Element:
    """Return a table.

    Args:
        label: What it holds, for those who cannot see it.
        names: Headings of the columns.
        rows: The cells of each row in order, or one element that takes the whole row.
    """
    head = tag("thead", tag("tr", [tag("th", name, scope="col") for name in names]))
    body = tag("tbody", [_row(names, row) for row in rows])
    return tag(
        "div",
        tag("table", head, body),
        class_="scroll",
        tabindex=0,
        role="region",
        aria_label=label,
    )


def _row(names: Sequence[str], row: Sequence[Child] | Element) -> Element:
    if isinstance(row, Element):
        return tag("tr", tag("td", row, colspan=len(names)))
    cells = zip(names, row, strict=True)
    return tag("tr", [_cell(name, cell) for name, cell in cells])


def _cell(name: str, content: Child) -> Element:
    # Empty cells take no room on a phone.
    return tag("td", content, data_label=name, class_=None if content else "empty")
