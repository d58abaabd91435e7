"""Reader of `levelgate.yaml`, which returns a `Config`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from graphlib import CycleError, TopologicalSorter
from itertools import count
from pathlib import Path
from typing import Any, Final

from applier.cluster import DNS_LABEL
from gitops.config.fields import parse_address, parse_age, parse_interval, parse_web_url
from gitops.config.model import DEFAULT_RESYNC, Config, ConfigErrors, FleetConfig
from gitops.config.schema import CONFIG_SCHEMA
from gitops.config.source_reader import SourceReader
from gitops.durations import format_duration
from gitops.external_facts import ExternalFactSource
from gitops.fleet.access import AccessSettings
from gitops.fleet.credential_plugin import CredentialPlugin
from gitops.notifications.receivers import (
    DEFAULT_EVENTS,
    DEFAULT_TEMPLATE,
    Channel,
    GitHubStatusChannel,
    GitLabStatusChannel,
    Receiver,
    Slack,
    Webhook,
    find_template_mistake,
)
from gitops.windows.problem_collector import FieldProblems
from gitops.windows.window import LOCAL
from renderer import documents, schema
from renderer.catalog.file_content import DeclaredObject
from renderer.errors import Problem, SourceLocation
from renderer.frozen import dataclass
from renderer.identity import OWN_NAMESPACE
from renderer.phrasing import format_count, suggestion_or_names

_LIST_FIELD: Final = re.compile(r"(\w+)\[(\d+)\]\.(\w+)")


def read_config(file: Path) -> Config:
    """Return the configuration in `file`. Relative paths begin in the directory of `file`. Raises: ConfigErrors."""
    try:
        data = file.read_bytes()
    except OSError as error:
        raise ConfigErrors([Problem(str(file), 0, "", f"cannot be read: {error.strerror}; check the file")]) from None
    parsed, problems = documents.load(str(file), data)
    if not problems and len(parsed) != 1:
        problems = [
            Problem(str(file), 0, "", f"holds {format_count(len(parsed), 'object')}; write one object of kind Config")
        ]
    if problems:
        raise ConfigErrors(problems)
    document = parsed[0]
    origin = SourceLocation(document.file, document.line)
    mistakes = FieldProblems(DeclaredObject(document.value, origin, document))
    config = _ConfigReader(mistakes, file.absolute().parent).parse_config(document.value)
    if mistakes.problems:
        raise ConfigErrors(sorted(set(mistakes.problems)))
    return config


@dataclass
class _ConfigReader(SourceReader):
    """Reader of all fields of the configuration file. The reader collects all mistakes, and does not stop at the first.

    An invalid field counts as missing, so that all other fields are still checked.
    """

    value: dict[str, Any] = field(default_factory=dict)
    warnings: list[Problem] = field(default_factory=list)

    def parse_config(self, value: dict[str, Any]) -> Config:
        """Return the configuration, and add a problem for each mistake."""
        self._check_schema(value)
        sources = [
            self.read_source(f"sources[{index}]", item) for index, item in enumerate(self._list_items("sources"))
        ]
        externals = [
            self._read_external_fact(f"externals[{index}]", item)
            for index, item in enumerate(self._list_items("externals"))
        ]
        for list_name in ("sources", "externals", "notifications"):
            self._check_unique_names(list_name)
        self._check_dependencies()
        return Config(
            tuple(filter(None, sources)),
            self._read_cluster_name(),
            tuple(filter(None, externals)),
            context=(self.value.get("cluster") or {}).get("context", ""),
            apply_concurrency=self.value.get("applyConcurrency"),
            max_concurrent_reconciles=self.value.get("maxConcurrentReconciles"),
            listen=self._read_listen(),
            hooks=self._read_hooks(),
            fleet=self._read_fleet(),
            notifications=tuple(filter(None, map(self._read_receiver, count(), self._list_items("notifications")))),
            resync=self.parse_field("resync", parse_interval, self.value.get("resync")) or DEFAULT_RESYNC,
            log_format=self.value.get("logFormat", ""),
            warnings=tuple(self.warnings),  # last, because the readers above add warnings
        )

    def _read_cluster_name(self) -> str:
        """Return the name of the cluster. If the name is not a DNS label, add a problem.

        A name cannot contain `*`, because `*` is a wildcard in windows.
        """
        name: str = (self.value.get("cluster") or {}).get("name", LOCAL)
        if not DNS_LABEL.fullmatch(name):
            message = (
                f"{name!r} cannot name a cluster; "
                "write at most 63 lowercase letters, digits and dashes, such as prod-eu"
            )
            self.problems.add_problem("cluster.name", message)
        return name

    def _read_listen(self) -> str:
        """Return the listen address as written. If the address is invalid, add a problem."""
        text: str = self.value.get("listen", "")
        if text:
            self.parse_field("listen", parse_address, text)
        return text

    def _read_hooks(self) -> Mapping[str, Path]:
        return {
            provider: self.resolve_file(f"hooks.{provider}.secretFile", settings["secretFile"])
            for provider, settings in (self.value.get("hooks") or {}).items()
        }

    def _read_fleet(self) -> FleetConfig | None:
        """Return the fleet. For a single cluster, or if `source` is missing or malformed, return None."""
        value: dict[str, Any] = self.value.get("fleet") or {}
        if "source" not in value:
            return None
        names = [item["name"] for item in self._list_items("sources") if "name" in item]
        if value["source"] not in names:
            message = f"source {value['source']!r} is not configured{suggestion_or_names(value['source'], names)}"
            self.problems.add_problem("fleet.source", message)
        directory = self.directory / value["directory"] if "directory" in value else None
        if directory is not None and not directory.is_dir():
            message = f"directory {directory} does not exist; relative paths begin at {self.directory}"
            self.problems.add_problem("fleet.directory", message)
        plugins = tuple(
            CredentialPlugin(
                plugin["name"], plugin["command"], tuple(plugin.get("arguments") or ()), plugin.get("environment") or {}
            )
            for plugin in value.get("plugins") or ()
            if isinstance(plugin, dict) and {"name", "command"} <= plugin.keys()
        )
        for name, count_of_name in Counter(plugin.name for plugin in plugins).items():
            if count_of_name > 1:
                self.problems.add_problem("fleet.plugins", f"{count_of_name} plugins are called {name!r}; rename one")
        namespace = value.get("profileNamespace", OWN_NAMESPACE)
        return FleetConfig(value["source"], AccessSettings(directory, plugins, namespace))

    def _read_receiver(self, index: int, value: dict[str, Any]) -> Receiver | None:
        """Return a receiver of notifications, or None if the receiver has no valid channel."""
        path = f"notifications[{index}]"
        channels = [name for name in ("webhook", "slack", "github", "gitlab") if name in value]
        if len(channels) != 1:
            self.problems.add_problem(path, "must have exactly one of webhook, slack, github, gitlab")
            return None
        (kind,) = channels
        settings: dict[str, str] = value[kind]
        files = self.resolve_files(
            f"{path}.{kind}", {name: text for name, text in settings.items() if name.endswith("File")}
        )
        url = self.parse_field(f"{path}.{kind}.url", parse_web_url, settings.get("url"))
        if mistake := find_template_mistake(value.get("template", DEFAULT_TEMPLATE)):
            self.problems.add_problem(f"{path}.template", mistake)
        channel: Channel | None = None
        url_argument = {"url": url.rstrip("/")} if url else {}
        match kind:
            case "webhook" if url and "secretFile" in files:
                channel = Webhook(url, files["secretFile"])
            case "slack" if "urlFile" in files:
                channel = Slack(files["urlFile"])
            case "github" if "repository" in settings and "tokenFile" in files:
                channel = GitHubStatusChannel(settings["repository"], files["tokenFile"], **url_argument)
            case "gitlab" if "project" in settings and "tokenFile" in files:
                channel = GitLabStatusChannel(settings["project"], files["tokenFile"], **url_argument)
        if channel is None:
            return None
        events = frozenset(value["events"]) if "events" in value else DEFAULT_EVENTS
        sources = frozenset(value.get("sources") or ())
        self._check_receiver_sources(path, value.get("sources") or ())
        return Receiver(value.get("name", ""), channel, events, sources, value.get("template", DEFAULT_TEMPLATE))

    def _check_receiver_sources(self, path: str, names: Sequence[str]) -> None:
        """Warn about the sources of a receiver that are not configured.

        A missing source is not a mistake, because the operator may add the source later.
        """
        known = {item["name"] for item in self._list_items("sources") if "name" in item}
        for index, name in enumerate(names):
            if name not in known:
                place = f"{path}.sources[{index}]"
                declared = self.problems.declared
                message = f"source {name!r} is not configured{suggestion_or_names(name, known)}"
                self.warnings.append(Problem(declared.origin.file, declared.line_of(place), place, message))

    def _check_schema(self, value: dict[str, Any]) -> None:
        """Check names and types of all fields, and remove invalid fields from `value`."""
        self.value = value
        for mistake in schema.validate(CONFIG_SCHEMA, value):
            self.problems.add_problem(mistake.path, mistake.message)
            if match := _LIST_FIELD.match(mistake.path):
                value[match[1]][int(match[2])].pop(match[3], None)
            elif "[" not in mistake.path:
                value.pop(mistake.path.partition(".")[0], None)

    def _list_items(self, name: str) -> list[dict[str, Any]]:
        """Return the items of the list `name`. An item that is not an object counts as empty."""
        items = self.value.get(name)
        return [item if isinstance(item, dict) else {} for item in items] if isinstance(items, list) else []

    def _check_unique_names(self, list_name: str) -> None:
        """Check the names in the list `list_name`, and add a problem for each item that repeats an earlier name."""
        counts = Counter(item.get("name") for item in self._list_items(list_name))
        seen = set()
        for index, item in enumerate(self._list_items(list_name)):
            item_name = item.get("name")
            if item_name in seen:
                self.problems.add_problem(
                    f"{list_name}[{index}].name",
                    f"{counts[item_name]} {list_name} are called {item_name!r}; rename one",
                )
            seen.add(item_name)

    def _check_dependencies(self) -> None:
        """Check that the sources in `dependsOn` exist, and that no source waits for itself."""
        sources = {item["name"]: item for item in reversed(self._list_items("sources")) if "name" in item}
        for index, item in enumerate(self._list_items("sources")):
            for position, dependency in enumerate(item.get("dependsOn") or ()):
                if dependency not in sources:
                    message = f"source {dependency!r} is not configured{suggestion_or_names(dependency, sources)}"
                    self.problems.add_problem(f"sources[{index}].dependsOn[{position}]", message)
        graph = {
            name: [dependency for dependency in item.get("dependsOn") or () if dependency in sources]
            for name, item in sources.items()
        }
        try:
            TopologicalSorter(graph).prepare()
        except CycleError as error:
            cycle = error.args[1]
            index = next(
                index for index, item in enumerate(self._list_items("sources")) if item.get("name") == cycle[0]
            )
            self.problems.add_problem(
                f"sources[{index}].dependsOn", f"waits for itself: {' <- '.join(cycle)}; remove a dependency"
            )

    def _read_external_fact(self, path: str, value: dict[str, Any]) -> ExternalFactSource | None:
        """Return an external fact, or None if a required field is missing or invalid."""
        http = value.get("http") or {}
        url = self.parse_field(f"{path}.http.url", parse_web_url, http.get("url"))
        max_age = self.parse_field(f"{path}.maxAge", parse_age, value.get("maxAge"))
        timeout = self.parse_field(f"{path}.http.timeout", parse_interval, http.get("timeout", "10s"))
        if not url or not max_age or not timeout or "expect" not in http:
            return None
        external = ExternalFactSource(value.get("name", ""), url, http["expect"], max_age, timeout)
        if "timeout" in http and timeout > external.interval:
            message = f"is longer than {format_duration(external.interval)}, a third of maxAge; write a shorter timeout"
            self.problems.add_problem(f"{path}.http.timeout", message)
        return replace(external, timeout=min(timeout, external.interval))
