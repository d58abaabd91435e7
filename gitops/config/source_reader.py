"""What the configuration says of one source."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from applier.applyset.adoption import NEVER, Adoption
from applier.plan.model import DeletionBrake
from gitops.config.fields import FieldReader, interval, web_url
from gitops.forge.connect import ForgeProject, UnknownForge
from gitops.source import (
    BranchRef,
    CommitRef,
    Credentials,
    DefaultBranchRef,
    Ref,
    SourceTarget,
    TagRef,
    Verification,
    VersionRange,
    VersionRef,
    is_url,
)
from gitops.source_config import SOURCE_NAME, SourceConfig
from renderer.frozen import dataclass
from renderer.identity import OWN_NAMESPACE

_ACCOUNT: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?/[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?")
_REFS: Final[Mapping[str, Callable[[str], Ref]]] = {
    "branch": BranchRef,
    "tag": TagRef,
    "semver": lambda text: VersionRef(VersionRange.parse(text)),
    "commit": CommitRef,
}
_OF_SCHEMES: Final = {
    "tokenFile": ("https", "http"),
    "username": ("https", "http"),
    "caFile": ("https",),
    "sshKeyFile": ("ssh",),
    "knownHostsFile": ("ssh",),
}


@dataclass
class SourceReader(FieldReader):
    """A field that is wrong counts as not given, so that all others are looked at."""

    def source(self, path: str, value: dict[str, Any]) -> SourceConfig | None:
        name = value.get("name", "")
        if name and not SOURCE_NAME.fullmatch(name):
            self.found.fail(f"{path}.name", f"{name!r} cannot name a source; write small letters, digits and dashes")
        target = self._target(path, value)
        credentials = self._credentials(f"{path}.credentials", value.get("credentials") or {}, target)
        every = self.parsed(f"{path}.interval", interval, value.get("interval", "30s"))
        adoption = _adoption(value.get("adopt"))
        if target is None or every is None:
            return None
        return SourceConfig(
            name,
            target,
            credentials,
            interval=every,
            adoption=adoption,
            brake=DeletionBrake(**(value.get("brake") or {})),
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

    def _target(self, path: str, value: dict[str, Any]) -> SourceTarget | None:
        url: str = value.get("url", "")
        if not is_url(url):
            url = os.path.normpath(self.directory / Path(url).expanduser())
        found = self.parsed(f"{path}.url", SourceTarget, url) if "url" in value else None
        ref = self._ref(f"{path}.ref", value.get("ref"))
        inside = self.parsed(
            f"{path}.path", lambda text: SourceTarget(str(self.directory), path=text).path, value.get("path", "")
        )
        return None if found is None or ref is None or inside is None else SourceTarget(found.url, ref, inside)

    def _ref(self, path: str, value: Mapping[str, str] | None) -> Ref | None:
        match list((value or {"": ""}).items()):
            case [("", "")]:
                return DefaultBranchRef()
            case [(kind, text)]:
                return self.parsed(f"{path}.{kind}", _REFS[kind], text)
        self.found.fail(path, f"must be exactly one of {', '.join(_REFS)}, such as {{branch: main}}")
        return None

    def _credentials(self, path: str, value: Mapping[str, str], target: SourceTarget | None) -> Credentials:
        for name in value:
            if target and target.scheme not in _OF_SCHEMES[name]:
                wanted = " and ".join(_OF_SCHEMES[name])
                self.found.fail(
                    f"{path}.{name}", f"is for {wanted}, and the URL is one of {target.scheme}; take it out"
                )
        if "username" in value and "tokenFile" not in value:
            self.found.fail(f"{path}.username", "counts beside tokenFile only, the file with the token or password")
        files = dict(self.files(path, value))
        return Credentials(
            token_file=files.get("tokenFile"),
            username=value.get("username", "git"),
            ssh_key_file=files.get("sshKeyFile"),
            known_hosts_file=files.get("knownHostsFile"),
            ca_file=files.get("caFile"),
        )

    def _forge(self, path: str, value: Mapping[str, str] | None, target: SourceTarget) -> ForgeProject | None:
        if not value or "tokenFile" not in value:
            return None
        token = self.file(f"{path}.tokenFile", value["tokenFile"])
        if "url" in value and not self.parsed(f"{path}.url", web_url, value["url"]):
            return None
        try:
            return ForgeProject.of(
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
        files = dict(self.files(path, named))
        return Verification(
            value.get("mode") == "EveryCommit", files.get("allowedSignersFile"), files.get("keyringFile")
        )


def _adoption(value: Any) -> Adoption:
    """Of what `adopt` says, a word or more; its form is checked already."""
    if isinstance(value, str):
        value = {"policy": value}
    return Adoption.parse(f"{value['policy']}:{','.join(value.get('from', ()))}") if value else NEVER
