"""Who is told, what, and by which request. Pure but for the files of secrets, which are read anew for each request and never shown."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from string import Formatter
from typing import Any, Final

import orjson

from applier.causes import EventReason, Reason
from gitops.forge.commit_status import CommitStatus, ReviewVerdict
from gitops.notifications.messages import Message
from gitops.records.cause_rows import timestamp
from gitops.records.instance_state import DisplayState
from gitops.records.transitions import Transition
from gitops.secret_file import secret_in
from renderer.frozen import dataclass

FIELDS: Final = ("cluster", "source", "commit", "object", "word", "message")
"""What a template may name."""

DEFAULT_TEMPLATE: Final = "{word} {object} ({source} {commit}, {cluster}): {message}"
DEFAULT_WORDS: Final = frozenset(
    {EventReason.SETTLED, EventReason.BREAK_GLASS_USED, *(reason for reason in Reason if reason.is_failure)}
    | {Reason.HALTED, Reason.BRAKE_ENGAGED, Reason.HISTORY_REWRITTEN, Reason.UNSIGNED, Reason.APPROVAL_REQUIRED}
    | {Reason.DEADLOCKED, Reason.DELETION_BLOCKED}
)
"""Who says nothing else hears of these. Of what settles, only sources tell."""


@dataclass(frozen=True, slots=True)
class OutgoingRequest:
    """A POST that tells something."""

    url: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Webhook:
    """A POST of JSON, signed as GitHub signs its own: `X-Levelgate-Signature-256: sha256=HMAC` over the body."""

    url: str
    secret_file: Path

    def request(self, one: Message, text: str, cluster: str, at: datetime) -> OutgoingRequest:
        objects = list(map(str, one.keys))
        told = {**_values(one, cluster), "commit": one.first.commit, "objects": objects}
        body = orjson.dumps({**told, "text": text, "time": timestamp(at)})
        digest = hmac.new(secret_in(self.secret_file).encode(), body, hashlib.sha256).hexdigest()
        return _json(self.url, body, {"X-Levelgate-Signature-256": f"sha256={digest}"})


@dataclass(frozen=True, slots=True)
class Slack:
    """An incoming webhook of Slack; its URL is a secret."""

    url_file: Path

    def request(self, _one: Message, text: str, _cluster: str, _at: datetime) -> OutgoingRequest:
        safe = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        return _json(secret_in(self.url_file), orjson.dumps({"text": safe}), {})


@dataclass(frozen=True, slots=True)
class GitHubStatusChannel:
    """The status of a commit at GitHub."""

    repository: str
    token_file: Path
    url: str = "https://api.github.com"

    def request(self, one: Message, text: str, cluster: str, _at: datetime) -> OutgoingRequest:
        path, body = _status(one.first, text, cluster).at_github(self.repository)
        headers = {
            "Authorization": f"Bearer {secret_in(self.token_file)}",
            "Accept": "application/vnd.github+json",
            "X-GitHub-Api-Version": "2022-11-28",
        }
        return _json(f"{self.url}{path}", orjson.dumps(body), headers)


@dataclass(frozen=True, slots=True)
class GitLabStatusChannel:
    """The status of a commit at GitLab; `url` is that of its API."""

    project: str
    token_file: Path
    url: str = "https://gitlab.com/api/v4"

    def request(self, one: Message, text: str, cluster: str, _at: datetime) -> OutgoingRequest:
        path, body = _status(one.first, text, cluster).at_gitlab(self.project)
        return _json(f"{self.url}{path}", orjson.dumps(body), {"PRIVATE-TOKEN": secret_in(self.token_file)})


Channel = Webhook | Slack | GitHubStatusChannel | GitLabStatusChannel


@dataclass(frozen=True, slots=True)
class Receiver:
    """Who is told of which `words`, of which `sources` (none: of all), and how it is put."""

    name: str
    channel: Channel
    words: frozenset[str] = DEFAULT_WORDS
    sources: frozenset[str] = frozenset()
    template: str = DEFAULT_TEMPLATE

    def wants(self, one: Transition) -> bool:
        if self.sources and one.source not in self.sources:
            return False
        if isinstance(self.channel, GitHubStatusChannel | GitLabStatusChannel):
            return bool(one.commit) and (one.is_of_source or one.is_warning)
        is_told = not self.words.isdisjoint({str(one.word), str(one.reason)})
        return is_told and (one.is_of_source or one.word is not EventReason.SETTLED or self.words is not DEFAULT_WORDS)

    def request(self, one: Message, cluster: str, at: datetime) -> OutgoingRequest:
        """Raises OSError where a file of a secret cannot be read."""
        return self.channel.request(one, self.template.format_map(_values(one, cluster)), cluster, at)


def template_mistake(template: str) -> str:
    """What is wrong with a template; it names fields, and nothing of their insides. Empty where nothing is."""
    if not template.strip():
        return "says nothing"
    try:
        parts = list(Formatter().parse(template))
    except ValueError as error:
        return f"is no template: {error}"
    for _, name, form, conversion in parts:
        if name is not None and (name not in FIELDS or form or conversion):
            return f"names {{{name}}}; there are {', '.join(f'{{{known}}}' for known in FIELDS)}"
    return ""


def _values(one: Message, cluster: str) -> dict[str, str]:
    first = one.first
    values = (cluster, first.source, first.commit[:12], one.object, str(first.word), one.text)
    return dict(zip(FIELDS, values, strict=True))


def _status(one: Transition, text: str, cluster: str) -> CommitStatus:
    """What was done, as to heal it, is no verdict: how all of the source is, that is."""
    failed = one.state == DisplayState.FAILED or (isinstance(one.word, Reason) and one.word.is_failure)
    verdict = (
        ReviewVerdict.SUCCESS
        if one.state == DisplayState.SETTLED
        else ReviewVerdict.FAILURE
        if failed
        else ReviewVerdict.PENDING
    )
    return CommitStatus(one.commit, verdict, f"levelgate/{cluster}/{one.source}", text)


def _json(url: str, body: bytes, headers: Mapping[str, Any]) -> OutgoingRequest:
    return OutgoingRequest(url, {"Content-Type": "application/json", "User-Agent": "levelgate", **headers}, body)
