"""From the text of `levelgate.yaml` to values."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import field, replace
from graphlib import CycleError, TopologicalSorter
from itertools import count
from pathlib import Path
from typing import Any, Final

from gitops.config.address import address
from gitops.config.fields import age, interval, web_url
from gitops.config.model import RESYNC, Config, ConfigErrors
from gitops.config.schema import FORM
from gitops.config.source_reader import SourceReader
from gitops.external_facts import ExternalFactSource
from gitops.notifications.receivers import (
    DEFAULT_TEMPLATE,
    DEFAULT_WORDS,
    Channel,
    GitHubStatusChannel,
    GitLabStatusChannel,
    Receiver,
    Slack,
    Webhook,
    template_mistake,
)
from gitops.windows.problem_collector import FieldProblems
from gitops.windows.window import LOCAL
from renderer import documents, schema
from renderer.catalog.file_content import DeclaredObject
from renderer.definition.variables import suggestion
from renderer.errors import Problem, SourceLocation
from renderer.frozen import dataclass
from renderer.phrasing import counted

_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_LIST_FIELD: Final = re.compile(r"(\w+)\[(\d+)\]\.(\w+)")


def read(file: Path) -> Config:
    """The configuration in a file. Files that it names are looked for beside it. Raises ConfigErrors."""
    try:
        data = file.read_bytes()
    except OSError as error:
        raise ConfigErrors([Problem(str(file), 0, "", f"cannot be read: {error.strerror}")]) from None
    found, problems = documents.load(str(file), data)
    if not problems and len(found) != 1:
        problems = [Problem(str(file), 0, "", f"holds {counted(len(found), 'object')}; one of kind Config is expected")]
    if problems:
        raise ConfigErrors(problems)
    document = found[0]
    mistakes = FieldProblems(
        DeclaredObject(document.value, SourceLocation(document.file, document.line), document.line_of)
    )
    config = _Reader(mistakes, file.absolute().parent).config(document.value)
    if mistakes.problems:
        raise ConfigErrors(sorted(set(mistakes.problems)))
    return config


@dataclass
class _Reader(SourceReader):
    """Collects mistakes while it goes; a field that is wrong counts as not given, so that all others are looked at."""

    value: dict[str, Any] = field(default_factory=dict)

    def config(self, value: dict[str, Any]) -> Config:
        self._form(value)
        sources = [self.source(f"sources[{index}]", one) for index, one in enumerate(self._list("sources"))]
        externals = [self._external(f"externals[{index}]", one) for index, one in enumerate(self._list("externals"))]
        self._names("sources")
        self._names("externals")
        self._names("notifications")
        self._order()
        return Config(
            tuple(filter(None, sources)),
            self._cluster(),
            tuple(filter(None, externals)),
            (self.value.get("cluster") or {}).get("context", ""),
            self.value.get("applyConcurrency"),
            self.value.get("maxConcurrentReconciles"),
            self._listen(),
            self._hooks(),
            tuple(filter(None, map(self._receiver, count(), self._list("notifications")))),
            self.parsed("resync", interval, self.value.get("resync")) or RESYNC,
            self.value.get("logFormat", ""),
        )

    def _cluster(self) -> str:
        """Return the name of the cluster, a DNS label: windows select it, and `*` in them is no letter of a name."""
        name: str = (self.value.get("cluster") or {}).get("name", LOCAL)
        if not _LABEL.fullmatch(name):
            message = (
                f"{name!r} cannot name a cluster; write at most 63 small letters, digits and dashes, such as prod-eu"
            )
            self.found.fail("cluster.name", message)
        return name

    def _listen(self) -> str:
        text: str = self.value.get("listen", "")
        if text:
            self.parsed("listen", address, text)
        return text

    def _hooks(self) -> Mapping[str, Path]:
        return {
            provider: self.file(f"hooks.{provider}.secretFile", one["secretFile"])
            for provider, one in (self.value.get("hooks") or {}).items()
        }

    def _receiver(self, index: int, value: dict[str, Any]) -> Receiver | None:
        path = f"notifications[{index}]"
        channels = [name for name in ("webhook", "slack", "github", "gitlab") if name in value]
        if len(channels) != 1:
            self.found.fail(path, "must have exactly one of webhook, slack, github, gitlab")
            return None
        (kind,) = channels
        said: dict[str, str] = value[kind]
        files = dict(self.files(f"{path}.{kind}", {name: text for name, text in said.items() if name.endswith("File")}))
        url = self.parsed(f"{path}.{kind}.url", web_url, said.get("url"))
        if mistake := template_mistake(value.get("template", DEFAULT_TEMPLATE)):
            self.found.fail(f"{path}.template", mistake)
        channel: Channel | None = None
        where = {"url": url.rstrip("/")} if url else {}
        match kind:
            case "webhook" if url and "secretFile" in files:
                channel = Webhook(url, files["secretFile"])
            case "slack" if "urlFile" in files:
                channel = Slack(files["urlFile"])
            case "github" if "repository" in said and "tokenFile" in files:
                channel = GitHubStatusChannel(said["repository"], files["tokenFile"], **where)
            case "gitlab" if "project" in said and "tokenFile" in files:
                channel = GitLabStatusChannel(said["project"], files["tokenFile"], **where)
        if channel is None:
            return None
        words = frozenset(value["events"]) if "events" in value else DEFAULT_WORDS
        sources = frozenset(value.get("sources") or ())
        return Receiver(value.get("name", ""), channel, words, sources, value.get("template", DEFAULT_TEMPLATE))

    def _form(self, value: dict[str, Any]) -> None:
        """Names and types of fields; those that are wrong are taken out."""
        self.value = value
        for mistake in schema.validate(FORM, value):
            self.found.fail(mistake.path, mistake.message)
            if match := _LIST_FIELD.match(mistake.path):
                value[match[1]][int(match[2])].pop(match[3], None)
            elif "[" not in mistake.path:
                value.pop(mistake.path.partition(".")[0], None)

    def _list(self, name: str) -> list[dict[str, Any]]:
        found = self.value.get(name)
        return [one if isinstance(one, dict) else {} for one in found] if isinstance(found, list) else []

    def _names(self, name: str) -> None:
        """No two of one name."""
        uses = Counter(one.get("name") for one in self._list(name))
        seen = set()
        for index, one in enumerate(self._list(name)):
            written = one.get("name")
            if written in seen:
                self.found.fail(f"{name}[{index}].name", f"{uses[written]} {name} are called {written!r}; rename one")
            seen.add(written)

    def _order(self) -> None:
        """Sources that depend on others: these exist, and nobody waits for himself."""
        sources = {one["name"]: one for one in reversed(self._list("sources")) if "name" in one}
        for index, one in enumerate(self._list("sources")):
            for place, other in enumerate(one.get("dependsOn") or ()):
                if other not in sources:
                    message = f"no source {other!r}{suggestion(other, sources)}"
                    self.found.fail(f"sources[{index}].dependsOn[{place}]", message)
        graph = {
            name: [other for other in one.get("dependsOn") or () if other in sources] for name, one in sources.items()
        }
        try:
            TopologicalSorter(graph).prepare()
        except CycleError as error:
            circle = error.args[1]
            index = next(index for index, one in enumerate(self._list("sources")) if one.get("name") == circle[0])
            self.found.fail(f"sources[{index}].dependsOn", f"waits for itself: {' <- '.join(circle)}")

    def _external(self, path: str, value: dict[str, Any]) -> ExternalFactSource | None:
        http = value.get("http") or {}
        url = self.parsed(f"{path}.http.url", web_url, http.get("url"))
        oldest = self.parsed(f"{path}.maxAge", age, value.get("maxAge"))
        timeout = self.parsed(f"{path}.http.timeout", interval, http.get("timeout", "10s"))
        if not url or not oldest or not timeout or "expect" not in http:
            return None
        external = ExternalFactSource(value.get("name", ""), url, http["expect"], oldest, timeout)
        if "timeout" in http and timeout > external.interval:
            most = f"{external.interval.total_seconds():g}s"
            self.found.fail(
                f"{path}.http.timeout", f"is longer than {most}, a third of maxAge, after which it is asked again"
            )
        return replace(external, timeout=min(timeout, external.interval))
