"""Receivers of notifications: the transitions that a receiver wants, and the HTTP request for a message.

For each request, the module reads the file with the receiver's secret, and never shows its content. All other functions
are pure.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from datetime import datetime
from html import escape
from pathlib import Path
from string import Formatter
from typing import Any, Final

import orjson

from applier.causes import EventReason, Reason
from gitops.forge.commit_status import CommitStatus, ReviewVerdict
from gitops.notifications.messages import Message
from gitops.records.display_state import DisplayState
from gitops.records.transitions import Transition
from gitops.secret_file import read_secret
from gitops.timestamps import timestamp
from renderer.frozen import dataclass

TEMPLATE_FIELDS: Final = ("cluster", "source", "commit", "object", "word", "message")
"""Names that a template may contain."""

DEFAULT_TEMPLATE: Final = "{word} {object} ({source} {commit}, {cluster}): {message}"
DEFAULT_EVENTS: Final = frozenset(
    {EventReason.SETTLED, EventReason.BREAK_GLASS_USED, *(reason for reason in Reason if reason.is_failure)}
    | {Reason.HALTED, Reason.BRAKE_ENGAGED, Reason.HISTORY_REWRITTEN, Reason.UNSIGNED, Reason.APPROVAL_REQUIRED}
    | {Reason.DEADLOCKED, Reason.DELETION_BLOCKED, Reason.LEFT_BEHIND}
)
"""Reasons for a receiver whose configuration names none. Such a receiver gets no message about a settled instance."""


@dataclass(frozen=True, slots=True)
class OutgoingRequest:
    """POST request with a notification."""

    url: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Webhook:
    """Webhook with a JSON body and a signature in GitHub's form: `X-Levelgate-Signature-256: sha256=HMAC`."""

    url: str
    secret_file: Path

    def build_request(self, message: Message, text: str, cluster: str, moment: datetime) -> OutgoingRequest:
        values = {**_template_values(message, cluster), "commit": message.first.commit}
        objects = list(map(str, message.keys))
        body = orjson.dumps({**values, "objects": objects, "text": text, "time": timestamp(moment)})
        digest = hmac.new(read_secret(self.secret_file).encode(), body, hashlib.sha256).hexdigest()
        return _json_request(self.url, body, {"X-Levelgate-Signature-256": f"sha256={digest}"})


@dataclass(frozen=True, slots=True)
class Slack:
    """Incoming webhook of Slack. The URL is a secret, so a file contains it."""

    url_file: Path

    def build_request(self, _message: Message, text: str, _cluster: str, _moment: datetime) -> OutgoingRequest:
        return _json_request(read_secret(self.url_file), orjson.dumps({"text": escape(text, quote=False)}), {})


@dataclass(frozen=True, slots=True)
class GitHubStatusChannel:
    """Channel that sets the status of a commit at GitHub."""

    repository: str
    token_file: Path
    url: str = "https://api.github.com"

    def build_request(self, message: Message, text: str, cluster: str, _moment: datetime) -> OutgoingRequest:
        path, body = _commit_status(message.first, text, cluster).github_request(self.repository)
        headers = {
            "Authorization": f"Bearer {read_secret(self.token_file)}",
            "Accept": "application/vnd.github+json",
            "X-GitHub-Api-Version": "2022-11-28",
        }
        return _json_request(f"{self.url}{path}", orjson.dumps(body), headers)


@dataclass(frozen=True, slots=True)
class GitLabStatusChannel:
    """Channel that sets the status of a commit at GitLab."""

    project: str
    token_file: Path
    url: str = "https://gitlab.com/api/v4"
    """Base URL of the API."""

    def build_request(self, message: Message, text: str, cluster: str, _moment: datetime) -> OutgoingRequest:
        path, body = _commit_status(message.first, text, cluster).gitlab_request(self.project)
        return _json_request(f"{self.url}{path}", orjson.dumps(body), {"PRIVATE-TOKEN": read_secret(self.token_file)})


Channel = Webhook | Slack | GitHubStatusChannel | GitLabStatusChannel


@dataclass(frozen=True, slots=True)
class Receiver:
    """Channel for notifications, with a selection of transitions."""

    name: str
    channel: Channel
    events: frozenset[str] = DEFAULT_EVENTS
    """Reasons of the transitions that the receiver wants."""
    sources: frozenset[str] = frozenset()
    """Sources whose transitions the receiver wants. An empty set stands for all sources."""
    template: str = DEFAULT_TEMPLATE
    """Template of the text, for channels that send a text."""

    def wants(self, transition: Transition) -> bool:
        """Return whether this receiver wants the transition.

        A commit status ignores the reasons, and accepts every transition of its source and all warnings of instances.
        With the default reasons, any other receiver gets no message about a settled instance.
        """
        if self.sources and transition.source not in self.sources:
            return False
        if isinstance(self.channel, GitHubStatusChannel | GitLabStatusChannel):
            return bool(transition.commit) and (transition.is_of_source or transition.is_warning)
        is_selected = not self.events.isdisjoint({str(transition.event_reason), str(transition.reason)})
        return is_selected and (
            transition.is_of_source
            or transition.event_reason is not EventReason.SETTLED
            or self.events is not DEFAULT_EVENTS
        )

    def build_request(self, message: Message, cluster: str, moment: datetime) -> OutgoingRequest:
        """Return the request for a message.

        Raises: OSError, UnicodeDecodeError or EmptySecret if the secret file is unusable.
        """
        return self.channel.build_request(
            message, self.template.format_map(_template_values(message, cluster)), cluster, moment
        )


def find_template_mistake(template: str) -> str:
    """Return the mistake in `template`, or an empty string if the template is valid.

    A template may name fields, but no formats or attributes.
    """
    if not template.strip():
        return "is empty"
    try:
        parts = list(Formatter().parse(template))
    except ValueError as error:
        return f"is not a template: {error}; correct the braces"
    for _, name, format_spec, conversion in parts:
        if name is not None and (name not in TEMPLATE_FIELDS or format_spec or conversion):
            fields = ", ".join(f"{{{known_field}}}" for known_field in TEMPLATE_FIELDS)
            return f"names {{{name}}}; write only the fields {fields}, without formats"
    return ""


def _template_values(message: Message, cluster: str) -> dict[str, str]:
    first = message.first
    values = (cluster, first.source, first.commit[:12], message.object, str(first.event_reason), message.text)
    return dict(zip(TEMPLATE_FIELDS, values, strict=True))


def _commit_status(transition: Transition, text: str, cluster: str) -> CommitStatus:
    """Return the status of the transition's commit.

    Only the state of the whole source is a success or a failure. A single action, such as healing, leaves the status
    pending.
    """
    is_failed = transition.state == DisplayState.FAILED or (
        isinstance(transition.event_reason, Reason) and transition.event_reason.is_failure
    )
    verdict = (
        ReviewVerdict.SUCCESS
        if transition.state == DisplayState.SETTLED
        else ReviewVerdict.FAILURE
        if is_failed
        else ReviewVerdict.PENDING
    )
    return CommitStatus(transition.commit, verdict, f"levelgate/{cluster}/{transition.source}", text)


def _json_request(url: str, body: bytes, headers: Mapping[str, Any]) -> OutgoingRequest:
    return OutgoingRequest(url, {"Content-Type": "application/json", "User-Agent": "levelgate", **headers}, body)
