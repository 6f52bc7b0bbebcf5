"""Signs that a stream can show, and names of a model in them."""

from __future__ import annotations

from dataclasses import dataclass

from onnx_passes.report.text import ends, one_line


@dataclass(frozen=True)
class Glyphs:
    """The few signs that are not ASCII, and what stands in for them."""

    encoding: str
    arrow: str
    ellipsis: str

    @classmethod
    def of(cls, encoding: str | None) -> Glyphs:
        """Return those that the encoding of a stream can show."""
        name = encoding or "utf-8"
        try:
            "→…".encode(name)
        except (UnicodeEncodeError, LookupError):
            return cls("ascii", "->", "...")
        return cls(name, "→", "…")

    def name(self, text: str) -> str:
        """Return a name from the model so that it can do no harm and fits on one line."""
        return one_line(ends(text, sign=self.ellipsis), self.encoding)

    def step(self, before: object, after: object) -> str:
        """Return what changed, or what stayed.

        Args:
            before: What was there.
            after: What is there now.
        """
        return f"{before}" if before == after else f"{before} {self.arrow} {after}"
