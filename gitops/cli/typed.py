"""What a person types to name something, or a time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import click

from gitops.records.references import Ref, RefError
from gitops.times import TimeFormat


def parse_ref(words: Sequence[str]) -> Ref:
    """REF as it was typed. Raises UsageError with what would be right."""
    try:
        return Ref.parse(words)
    except RefError as error:
        raise click.UsageError(str(error)) from None


def typed_time(times: TimeFormat, text: str, option: str) -> datetime:
    """Return the moment that was given for this option. Raises BadParameter."""
    try:
        return times.parse(text)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint=option) from None
