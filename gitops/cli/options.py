"""Options that several commands take, with one text and one meaning."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from applier.kube.cluster import KubeCluster

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


@dataclass(frozen=True, slots=True)
class ClusterChoice:
    """Which cluster a person named; nothing named: as kubectl chooses it."""

    kubeconfig: str | None = None
    context: str | None = None

    async def connect(self, *, concurrency: int = 16) -> KubeCluster:
        """The chosen cluster, to be closed by the caller. Raises ConfigurationError."""
        from applier.kube import connect

        return await connect(kubeconfig=self.kubeconfig, context=self.context, concurrency=concurrency)


def cluster_options(command: Callable[..., int]) -> Callable[..., int]:
    """Options that choose a cluster; the command gets them as one parameter, `choice`."""

    @wraps(command)
    def chosen(*, kubeconfig: str | None, context: str | None, **others: Any) -> int:
        return command(choice=ClusterChoice(kubeconfig, context), **others)

    for option in (
        click.option("--context", metavar="NAME", help="The kubeconfig's context to use."),
        click.option(
            "--kubeconfig",
            metavar="FILE",
            help="The kubeconfig file; else $KUBECONFIG, ~/.kube/config, or the pod's service account.",
        ),
    ):
        chosen = option(chosen)
    return chosen
