"""The commands of a record, with the form in which their output is read; without a form only exit code and writes count."""

from __future__ import annotations

import shlex
from dataclasses import dataclass


@dataclass(frozen=True)
class Command:
    """A command line after `levelgate`; `{head}` is the head's id; `reads` is json, yaml, text, or virtual: JSON whose times count."""

    line: str
    reads: str = ""

    def arguments(self, head: str) -> list[str]:
        return shlex.split(self.line.replace("{head}", head))


OFFLINE = (
    Command("--help"),
    Command("version"),
    Command("no-such-command"),
    Command("plan --no-such-option"),
    Command("render ."),
    Command("render . -o yaml", "yaml"),
    Command("render . -o json", "json"),
    Command("lint ."),
    Command("lint . -o json", "json"),
    Command("plan . --base HEAD~3 --head HEAD --source platform"),
    Command("plan . --base HEAD~3 --head HEAD --source platform -o json", "json"),
    Command("plan . --base HEAD~3 --head HEAD --source platform -o markdown"),
    Command("plan . --base HEAD~3 --head HEAD --source platform -o junit", "text"),
    Command("plan . --base HEAD~3 --head HEAD --source platform -o sarif", "json"),
    Command("plan . --base HEAD~3 --head HEAD --source platform --exit-code"),
    Command("simulate . --base HEAD~3 --head HEAD --start 2026-03-04T10:00 --utc --assume ready=2m"),
    Command("simulate . --base HEAD~3 --head HEAD --start 2026-03-04T10:00 --utc --assume ready=2m -o json", "virtual"),
    Command("generate crd definitions", "yaml"),
    Command("generate crd definitions -o json", "json"),
    Command("generate diagram definitions", "text"),
    Command("generate instance definitions", "yaml"),
    Command("generate clusterrole definitions", "yaml"),
    Command("generate schema definitions"),
    Command("windows . --at 2026-03-04T10:00 --utc -o json", "virtual"),
)

COMMANDS = (
    Command("plan . --source platform -o json", "json"),
    Command("plan . --source platform --exit-code"),
    Command("status"),
    Command("status -o json", "json"),
    Command("status -o name"),
    Command("tree webapp/docs -n prod"),
    Command("tree webapp/docs -n prod -o json", "json"),
    Command("tree source/platform -o json", "json"),
    Command("explain webapp/docs -n prod -o json", "json"),
    Command("explain source/platform -o json", "json"),
    Command("explain deployment/docs -n prod -o json", "json"),
    Command("explain rollout/webapps.platform.example.com -o json", "json"),
    Command("explain --event configmap/docs-settings -n prod -o json", "json"),
    Command("explain webapp/no-such -n prod"),
    Command("windows"),
    Command("history"),
    Command("history -o json", "json"),
    Command("events"),
    Command("logs"),
    Command("check"),
    Command("wait --timeout 10s"),
    Command("wait webapp/docs -n prod --for applied --timeout 10s"),
    Command("snapshot", "json"),
    Command("hold webapp/docs -n prod --until 2027-01-01T00:00 --reason golden"),
    Command("release webapp/docs -n prod"),
    Command("halt rollout/webapps.platform.example.com --reason golden"),
    Command("resume rollout/webapps.platform.example.com"),
    Command("approve rollout/webapps.platform.example.com --after staging --reason golden"),
    Command("approve source/platform --commit {head}"),
    Command("pin source/platform --revision {head} --reason golden"),
    Command("unpin source/platform"),
    Command("suspend source/platform --reason golden"),
    Command("resume source/platform"),
    Command("suspend --all --reason golden"),
    Command("resume --all"),
    Command("break-glass webapp/docs -n prod --for 1h --reason golden --dry-run"),
    Command("reconcile source/platform"),
    Command("uninstall"),
)

AFTERWARDS = (
    Command("lint ."),
    Command("lint . -o json", "json"),
    Command("render ."),
    Command("plan . --source platform --exit-code"),
    Command("plan . --source platform -o sarif", "json"),
    Command("status"),
    Command("status -o json", "json"),
    Command("explain source/platform -o json", "json"),
    Command("wait --timeout 1s"),
    Command("check"),
)
