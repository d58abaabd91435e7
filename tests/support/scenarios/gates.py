"""Windows, gated definitions and runs at a chosen time, for scenarios."""

from __future__ import annotations

import json
from collections.abc import Collection
from datetime import UTC, datetime
from typing import Any

from tests.support import command as process
from tests.support.command_at_time import stand_still
from tests.support.command_platform import CommandPlatform

SATURDAY = datetime(2026, 11, 21, 10, tzinfo=UTC)
MONDAY = datetime(2026, 11, 23, 8, tzinfo=UTC)
"""09:00 in Berlin."""
HOURS = {"kind": "Allow", "timeZone": "Europe/Berlin", "schedule": {"cron": "0 9 * * 1-5"}, "until": "17:00"}


def run_at(platform: CommandPlatform, moment: datetime, codes: Collection[int] = (0, 3)) -> None:
    """Run `run --once` at this time. It must end with one of these codes: 0, 1 (something failed) or 3 (something waits)."""
    arguments = ("run", "--source", f"{platform.name}={platform.repository.path}", "--once", "--wait", "0s")
    done = process.run(arguments, platform.environment, before=stand_still, given=(moment,))
    assert done.returncode in codes, done.stdout + done.stderr


def rule(kind: str, name: str, spec: dict[str, Any]) -> str:
    """Return the file of a window or a policy."""
    return json.dumps({"apiVersion": "levelgate.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec})


def window(name: str, spec: dict[str, Any]) -> str:
    """Return the file of a window."""
    return rule("PropagationWindow", name, spec)


def config_map(
    node: str, *, reads: str = "nothing", text: str = "${schema.spec.text}", **fields: Any
) -> dict[str, Any]:
    """Return a ConfigMap node."""
    metadata = {"name": f"${{schema.metadata.name}}-{node}"}
    data = {"text": text, "reads": reads}
    return {
        "id": node,
        "template": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data},
        **fields,
    }


def definition(group: str, *resources: dict[str, Any]) -> str:
    """Return the file of the definition `chains`."""
    schema = {"group": group, "apiVersion": "v1", "kind": "Chain", "spec": {"text": "string | default=one"}}
    return json.dumps(
        {
            "apiVersion": "kro.run/v1alpha1",
            "kind": "ResourceGraphDefinition",
            "metadata": {"name": f"chains.{group}"},
            "spec": {"schema": schema, "resources": list(resources)},
        }
    )


def annotate(platform: CommandPlatform, what: str, said: str, namespace: str = "") -> None:
    """Annotate an object with kubectl."""
    platform.kubectl("annotate", "--overwrite", what, said, "-n", namespace or platform.namespace)
