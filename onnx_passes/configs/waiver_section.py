"""The section ``waivers`` of a pipeline file."""

from __future__ import annotations

from datetime import date
from typing import Annotated

from pydantic import BeforeValidator, Field, model_validator

from onnx_passes.configs.section import Section, wrong
from onnx_passes.configs.waivers import Waiver


def _text(value: object) -> object:
    if isinstance(value, str) and value.strip():
        return value.strip()
    raise wrong("text that is not empty")


def _day(value: object) -> object:
    if value is None or isinstance(value, date):
        return value
    try:
        return date.fromisoformat(str(value))
    except ValueError:
        raise wrong("a date such as 2027-01-31") from None


Text = Annotated[str, BeforeValidator(_text, json_schema_input_type=str)]


class WaiverSection(Section):
    """Something that is not verified, or fails its check, and is accepted."""

    rule: Text | None = Field(
        default=None, description="Name of the rule, as reports print it."
    )
    pass_name: Text | None = Field(
        default=None,
        alias="pass",
        description="Name of the pass; a waiver has this or 'rule'.",
    )
    model: Text = Field(
        default="*", description="Pattern of the names of model files: 'bert-*.onnx'."
    )
    reason: Text = Field(description="Why it is accepted. Reports print it.")
    expires: Annotated[
        date | None, BeforeValidator(_day, json_schema_input_type=str | None)
    ] = Field(
        default=None,
        description="The last day on which it counts, such as 2027-01-31; by default it has "
        "no end, and reports say so.",
    )

    @model_validator(mode="after")
    def _check_what(self) -> WaiverSection:
        if (self.rule is None) == (self.pass_name is None):
            raise wrong("either 'rule' or 'pass'")
        return self

    def waiver(self) -> Waiver:
        """Return the waiver that it describes."""
        what = self.rule if self.rule is not None else self.pass_name
        assert what is not None
        return Waiver(what, self.rule is not None, self.reason, self.model, self.expires)
