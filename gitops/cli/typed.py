"""What a person types to name something."""

from __future__ import annotations

from collections.abc import Sequence

import click

from gitops.records.refs import Ref, RefError


def typed(words: Sequence[str]) -> Ref:
    """REF as it was typed. Raises UsageError with what would be right."""
    try:
        return Ref.parse(words)
    except RefError as error:
        raise click.UsageError(str(error)) from None
