"""What the sections' fields share: durations, texts, the strictness of a table."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer

from monitor.config.durations import format_duration, parse_duration

NO_TIME = timedelta(0)

Duration = Annotated[
    timedelta, BeforeValidator(parse_duration), PlainSerializer(format_duration, return_type=str)
]


def one_or_many(value: object) -> object:
    """A text alone is a list of one."""
    return [value] if isinstance(value, str) else value


Url = Annotated[str, Field(pattern=r"^https?://[^\s/]+[^\s]*$")]
Texts = Annotated[list[str], BeforeValidator(one_or_many)]


class Section(BaseModel):
    """A table of the file; keys nobody knows are an error."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)
