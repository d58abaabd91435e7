"""Options that several commands take, with one text and one meaning."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

_UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}


class Duration(click.ParamType[timedelta]):
    """`30s`, `5m`, `1h30m`."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        if isinstance(value, timedelta):
            return value
        parts = re.findall(r"([0-9]+)(ms|[smhd])", value)
        if not parts or "".join(map("".join, parts)) != value:
            self.fail(f"{value!r} is not a duration; write for example 30s, 5m or 1h30m", param, ctx)
        return timedelta(seconds=sum(int(number) * _UNITS[unit] for number, unit in parts))


def cluster_options(command: F) -> F:
    """Which cluster: as kubectl chooses it."""
    for option in (
        click.option("--context", metavar="NAME", help="The kubeconfig's context to use."),
        click.option(
            "--kubeconfig",
            metavar="FILE",
            help="The kubeconfig file; else $KUBECONFIG, ~/.kube/config, or the pod's service account.",
        ),
    ):
        command = option(command)
    return command
