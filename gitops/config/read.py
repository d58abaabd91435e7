"""From the text of `levelgate.yaml` to values."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from graphlib import CycleError, TopologicalSorter
from itertools import count
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

from applier.adoption import NEVER, Adoption
from applier.plan import Brake
from gitops.compose import SOURCE_NAME, SourceConfig
from gitops.config.address import address
from gitops.config.form import ADOPT, FORM
from gitops.durations import duration
from gitops.errors import GitopsError, RefusedUrl
from gitops.externals import External
from gitops.forge.connect import Place, UnknownForge
from gitops.notifications.receivers import (
    DEFAULT_TEMPLATE,
    DEFAULT_WORDS,
    Channel,
    GitHub,
    GitLab,
    Receiver,
    Slack,
    Webhook,
    template_mistake,
)
from gitops.propagation.mistakes import Mistakes
from gitops.source import Branch, Commit, Credentials, Head, Range, Ref, Tag, Target, Verification, Versions, is_url
from renderer import documents, schema
from renderer.content import Declared
from renderer.errors import Problem
from renderer.identity import OWN_NAMESPACE
from renderer.model import Origin
from renderer.scope import suggestion

T = TypeVar("T")

_LIST_FIELD: Final = re.compile(r"(\w+)\[(\d+)\]\.(\w+)")
_ACCOUNT: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?/[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?")
_SHORTEST: Final = timedelta(seconds=1)
_SHORTEST_AGE: Final = timedelta(seconds=3)
_REFS: Final[Mapping[str, Callable[[str], Ref]]] = {
    "branch": Branch,
    "tag": Tag,
    "semver": lambda text: Versions(Range.parse(text)),
    "commit": Commit,
}
_OF_SCHEMES: Final = {
    "tokenFile": ("https", "http"),
    "username": ("https", "http"),
    "caFile": ("https",),
    "sshKeyFile": ("ssh",),
    "knownHostsFile": ("ssh",),
}


RESYNC: Final = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class Config:
    """What the operator says. `context` is that of the kubeconfig, empty: the current one; `apply_concurrency`, `max_concurrent_reconciles` and
    `shards` are None where nothing is said.
    `listen` is where the daemon can be seen (`address`), empty where nothing is said; `hooks` has the file with the secrets of each provider that
    may call. `resync` is how often everything is read anew, `log_format` one of `LOG_FORMATS`, or empty.
    """

    sources: tuple[SourceConfig, ...]
    externals: tuple[External, ...] = ()
    context: str = ""
    apply_concurrency: int | None = None
    max_concurrent_reconciles: int | None = None
    listen: str = ""
    hooks: Mapping[str, Path] = field(default_factory=dict)
    notifications: tuple[Receiver, ...] = ()
    resync: timedelta = RESYNC
    log_format: str = ""
    shards: int | None = None

    @property
    def governors(self) -> frozenset[str]:
        """The sources whose windows and policies govern all."""
        return frozenset(one.name for one in self.sources if one.governs_all)


class ConfigErrors(GitopsError):
    """The file cannot be taken; `problems` has everything that is wrong with it."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))


def read(file: Path) -> Config:
    """The configuration in a file. Files that it names are looked for beside it. Raises ConfigErrors."""
    try:
        data = file.read_bytes()
    except OSError as error:
        raise ConfigErrors([Problem(str(file), 0, "", f"cannot be read: {error.strerror}")]) from None
    found, problems = documents.load(str(file), data)
    if not problems and len(found) != 1:
        problems = [Problem(str(file), 0, "", f"holds {len(found)} objects; one of kind Config is expected")]
    if problems:
        raise ConfigErrors(problems)
    document = found[0]
    mistakes = Mistakes(Declared(document.value, Origin(document.file, document.line), document.line_of))
    config = _Reader(mistakes, file.absolute().parent).config(document.value)
    if mistakes.problems:
        raise ConfigErrors(sorted(set(mistakes.problems)))
    return config


@dataclass
class _Reader:
    """Collects mistakes while it goes; a field that is wrong counts as not given, so that all others are looked at."""

    found: Mistakes
    directory: Path
    value: dict[str, Any] = field(default_factory=dict)

    def config(self, value: dict[str, Any]) -> Config:
        self._form(value)
        sources = [self._source(f"sources[{index}]", one) for index, one in enumerate(self._list("sources"))]
        externals = [self._external(f"externals[{index}]", one) for index, one in enumerate(self._list("externals"))]
        self._names("sources")
        self._names("externals")
        self._names("notifications")
        self._order()
        return Config(
            tuple(filter(None, sources)),
            tuple(filter(None, externals)),
            (self.value.get("cluster") or {}).get("context", ""),
            self.value.get("applyConcurrency"),
            self.value.get("maxConcurrentReconciles"),
            self._listen(),
            self._hooks(),
            tuple(filter(None, map(self._receiver, count(), self._list("notifications")))),
            self._parsed("resync", _interval, self.value.get("resync")) or RESYNC,
            self.value.get("logFormat", ""),
            self.value.get("shards"),
        )

    def _listen(self) -> str:
        text: str = self.value.get("listen", "")
        if text:
            self._parsed("listen", address, text)
        return text

    def _hooks(self) -> Mapping[str, Path]:
        return {
            provider: self._file(f"hooks.{provider}.secretFile", one["secretFile"])
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
        files = dict(
            self._files(f"{path}.{kind}", {name: text for name, text in said.items() if name.endswith("File")})
        )
        url = self._parsed(f"{path}.{kind}.url", _http, said.get("url"))
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
                channel = GitHub(said["repository"], files["tokenFile"], **where)
            case "gitlab" if "project" in said and "tokenFile" in files:
                channel = GitLab(said["project"], files["tokenFile"], **where)
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

    def _source(self, path: str, value: dict[str, Any]) -> SourceConfig | None:
        name = value.get("name", "")
        if name and not SOURCE_NAME.fullmatch(name):
            self.found.fail(f"{path}.name", f"{name!r} cannot name a source; write small letters, digits and dashes")
        target = self._target(path, value)
        credentials = self._credentials(f"{path}.credentials", value.get("credentials") or {}, target)
        interval = self._parsed(f"{path}.interval", _interval, value.get("interval", "30s"))
        adoption = self._adoption(f"{path}.adopt", value.get("adopt"))
        if target is None or interval is None:
            return None
        return SourceConfig(
            name,
            target,
            credentials,
            interval=interval,
            adoption=adoption,
            brake=Brake(**(value.get("brake") or {})),
            prunes=value.get("prune", True),
            suspend=value.get("suspend", ""),
            service_account=self._account(f"{path}.serviceAccount", value.get("serviceAccount", "")),
            depends_on=tuple(value.get("dependsOn") or ()),
            governs_all=value.get("policies") == "All",
            require_plan=value.get("requirePlan", False),
            verification=self._verification(f"{path}.verify", value.get("verify")),
            forge=self._forge(f"{path}.forge", value.get("forge"), target),
        )

    def _account(self, path: str, text: str) -> str:
        """`NAMESPACE/NAME`; one without a namespace is in Levelgate's own."""
        named = text if "/" in text or not text else f"{OWN_NAMESPACE}/{text}"
        if named and not _ACCOUNT.fullmatch(named):
            self.found.fail(path, f"{text!r} names no service account; write NAME, or NAMESPACE/NAME")
        return named

    def _external(self, path: str, value: dict[str, Any]) -> External | None:
        http = value.get("http") or {}
        url = self._parsed(f"{path}.http.url", _http, http.get("url"))
        age = self._parsed(f"{path}.maxAge", _age, value.get("maxAge"))
        timeout = self._parsed(f"{path}.http.timeout", _interval, http.get("timeout", "10s"))
        if not url or not age or not timeout or "expect" not in http:
            return None
        external = External(value.get("name", ""), url, http["expect"], age, timeout)
        if "timeout" in http and timeout > external.interval:
            most = f"{external.interval.total_seconds():g}s"
            self.found.fail(
                f"{path}.http.timeout", f"is longer than {most}, a third of maxAge, after which it is asked again"
            )
        return replace(external, timeout=min(timeout, external.interval))

    def _target(self, path: str, value: dict[str, Any]) -> Target | None:
        url: str = value.get("url", "")
        if not is_url(url):
            url = os.path.normpath(self.directory / Path(url).expanduser())
        found = self._parsed(f"{path}.url", Target, url) if "url" in value else None
        ref = self._ref(f"{path}.ref", value.get("ref"))
        inside = self._parsed(
            f"{path}.path", lambda text: Target(str(self.directory), path=text).path, value.get("path", "")
        )
        return None if found is None or ref is None or inside is None else Target(found.url, ref, inside)

    def _ref(self, path: str, value: Mapping[str, str] | None) -> Ref | None:
        match list((value or {"": ""}).items()):
            case [("", "")]:
                return Head()
            case [(kind, text)]:
                return self._parsed(f"{path}.{kind}", _REFS[kind], text)
        self.found.fail(path, f"must be exactly one of {', '.join(_REFS)}, such as {{branch: main}}")
        return None

    def _adoption(self, path: str, value: Any) -> Adoption:
        if isinstance(value, str):
            value = {"policy": value}
        if value is None:
            return NEVER
        mistakes = schema.validate(ADOPT, value)
        for mistake in mistakes:
            self.found.fail(f"{path}.{mistake.path}".removesuffix("."), mistake.message)
        return NEVER if mistakes else Adoption.parse(f"{value['policy']}:{','.join(value.get('from', ()))}")

    def _credentials(self, path: str, value: Mapping[str, str], target: Target | None) -> Credentials:
        for name in value:
            if target and target.scheme not in _OF_SCHEMES[name]:
                wanted = " and ".join(_OF_SCHEMES[name])
                self.found.fail(
                    f"{path}.{name}", f"is for {wanted}, and the URL is one of {target.scheme}; take it out"
                )
        if "username" in value and "tokenFile" not in value:
            self.found.fail(f"{path}.username", "counts beside tokenFile only, the file with the token or password")
        files = dict(self._files(path, value))
        return Credentials(
            token_file=files.get("tokenFile"),
            username=value.get("username", "git"),
            ssh_key_file=files.get("sshKeyFile"),
            known_hosts_file=files.get("knownHostsFile"),
            ca_file=files.get("caFile"),
        )

    def _forge(self, path: str, value: Mapping[str, str] | None, target: Target) -> Place | None:
        if not value or "tokenFile" not in value:
            return None
        token = self._file(f"{path}.tokenFile", value["tokenFile"])
        if "url" in value and not self._parsed(f"{path}.url", _http, value["url"]):
            return None
        try:
            return Place.of(
                target.url,
                token,
                kind=value.get("kind", ""),
                api=value.get("url", ""),
                project=value.get("repository", ""),
            )
        except UnknownForge as error:
            self.found.fail(path, str(error))
            return None

    def _verification(self, path: str, value: Mapping[str, str] | None) -> Verification | None:
        if not value:
            return None
        named = {name: text for name, text in value.items() if name != "mode"}
        if not named:
            self.found.fail(path, "names no keys; write allowedSignersFile, or keyringFile for OpenPGP")
        files = dict(self._files(path, named))
        return Verification(
            value.get("mode") == "EveryCommit", files.get("allowedSignersFile"), files.get("keyringFile")
        )

    def _files(self, path: str, value: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
        for name, text in value.items():
            if name == "username":
                continue
            yield name, self._file(f"{path}.{name}", text)

    def _file(self, path: str, text: str) -> Path:
        file = self.directory / text
        if not file.is_file():
            self.found.fail(path, f"there is no file {file}; relative paths begin at {self.directory}")
        elif not os.access(file, os.R_OK):
            self.found.fail(path, f"{file} cannot be read; check its permissions")
        return file

    def _parsed(self, path: str, parse: Callable[[str], T], text: str | None) -> T | None:
        """None where nothing is said, or what is said is wrong."""
        try:
            return None if text is None else parse(text)
        except (ValueError, RefusedUrl) as error:
            self.found.fail(path, str(error))
            return None


def _http(text: str) -> str:
    """Raises ValueError, which does not repeat the URL: it may hold a secret."""
    parts = urlsplit(text)
    if parts.scheme not in {"http", "https"} or not parts.hostname or not text.isprintable() or " " in text:
        raise ValueError("is not the URL of a web server; write https://HOST/PATH")
    if parts.username is not None or parts.password is not None:
        raise ValueError("holds a credential; facts are read without one")
    return text


def _age(text: str) -> timedelta:
    found = duration(text)
    if found < _SHORTEST_AGE:
        raise ValueError(f"{text!r} is shorter than 3s")
    return found


def _interval(text: str) -> timedelta:
    found = duration(text)
    if found < _SHORTEST:
        raise ValueError(f"{text!r} is shorter than 1s")
    return found
