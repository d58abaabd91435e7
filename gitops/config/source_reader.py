"""Reader of one source in the configuration."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from applier.applyset.adoption import NO_ADOPTION, Adoption
from applier.plan.deletion_brake import DeletionBrake
from applier.state.field_conflicts import DEFAULT_CONFLICT_POLICY, ConflictPolicy
from gitops.config.fields import FieldReader, parse_interval, parse_web_url
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
    parse_full_ref,
)
from gitops.source_config import SOURCE_NAME_PATTERN, SourceConfig
from renderer.frozen import dataclass
from renderer.identity import OWN_NAMESPACE

_ACCOUNT_PATTERN: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?/[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?")
_REF_PARSERS: Final[Mapping[str, Callable[[str], Ref]]] = {
    "branch": BranchRef,
    "tag": TagRef,
    "name": parse_full_ref,
    "semver": lambda text: VersionRef(VersionRange.parse(text)),
    "commit": CommitRef,
}
_CREDENTIAL_SCHEMES: Final = {
    "tokenFile": ("https", "http"),
    "username": ("https", "http"),
    "caFile": ("https",),
    "sshKeyFile": ("ssh",),
    "knownHostsFile": ("ssh",),
}


@dataclass
class SourceReader(FieldReader):
    """Reader of a source. An invalid field counts as missing, so that all further fields are still checked."""

    def read_source(self, path: str, value: dict[str, Any]) -> SourceConfig | None:
        """Return a source, or None if its URL, ref, path or interval is invalid."""
        name = value.get("name", "")
        if name and not SOURCE_NAME_PATTERN.fullmatch(name):
            self.problems.add_problem(
                f"{path}.name", f"{name!r} cannot name a source; write lowercase letters, digits and dashes"
            )
        target = self._read_target(path, value)
        credentials = self._read_credentials(f"{path}.credentials", value.get("credentials") or {}, target)
        poll_interval = self.parse_field(f"{path}.interval", parse_interval, value.get("interval", "30s"))
        adoption = _parse_adoption(value.get("adopt"))
        if target is None or poll_interval is None:
            return None
        return SourceConfig(
            name,
            target,
            credentials,
            interval=poll_interval,
            adoption=adoption,
            conflicts=ConflictPolicy(value.get("conflicts", DEFAULT_CONFLICT_POLICY)),
            brake=DeletionBrake(**(value.get("brake") or {})),
            prunes=value.get("prune", True),
            suspend=value.get("suspend", ""),
            service_account=self._read_account(f"{path}.serviceAccount", value.get("serviceAccount", "")),
            depends_on=tuple(value.get("dependsOn") or ()),
            governs_all=value.get("policies") == "All",
            require_plan=value.get("requirePlan", False),
            verification=self._read_verification(f"{path}.verify", value.get("verify")),
            forge=self._read_forge(f"{path}.forge", value.get("forge"), target),
        )

    def _read_account(self, path: str, text: str) -> str:
        """Return the service account as `NAMESPACE/NAME`. The default namespace is Levelgate's namespace."""
        qualified = text if "/" in text or not text else f"{OWN_NAMESPACE}/{text}"
        if qualified and not _ACCOUNT_PATTERN.fullmatch(qualified):
            self.problems.add_problem(path, f"{text!r} names no service account; write NAME, or NAMESPACE/NAME")
        return qualified

    def _read_target(self, path: str, value: dict[str, Any]) -> SourceTarget | None:
        """Return the target of the source, or None if URL, ref or path is invalid.

        A local path is relative to the configuration file.
        """
        url: str = value.get("url", "")
        if not is_url(url):
            url = os.path.normpath(self.directory / Path(url).expanduser())
        parsed = self.parse_field(f"{path}.url", SourceTarget, url) if "url" in value else None
        ref = self._read_ref(f"{path}.ref", value.get("ref"))
        inner_path = self.parse_field(
            f"{path}.path", lambda text: SourceTarget(str(self.directory), path=text).path, value.get("path", "")
        )
        return (
            None if parsed is None or ref is None or inner_path is None else SourceTarget(parsed.url, ref, inner_path)
        )

    def _read_ref(self, path: str, value: Mapping[str, str] | None) -> Ref | None:
        match list((value or {"": ""}).items()):
            case [("", "")]:
                return DefaultBranchRef()
            case [(kind, text)]:
                return self.parse_field(f"{path}.{kind}", _REF_PARSERS[kind], text)
        self.problems.add_problem(path, f"must be exactly one of {', '.join(_REF_PARSERS)}, such as {{branch: main}}")
        return None

    def _read_credentials(self, path: str, value: Mapping[str, str], target: SourceTarget | None) -> Credentials:
        """Return the credentials, and add a problem for each field that the URL's transport does not use."""
        for name in value:
            if target and target.scheme not in _CREDENTIAL_SCHEMES[name]:
                schemes = " and ".join(_CREDENTIAL_SCHEMES[name])
                self.problems.add_problem(
                    f"{path}.{name}", f"is for {schemes}, but the URL uses {target.scheme}; remove the field"
                )
        if "username" in value and "tokenFile" not in value:
            self.problems.add_problem(f"{path}.username", "requires tokenFile, the file with the token or password")
        files = self.resolve_files(path, value)
        return Credentials(
            token_file=files.get("tokenFile"),
            username=value.get("username", "git"),
            ssh_key_file=files.get("sshKeyFile"),
            known_hosts_file=files.get("knownHostsFile"),
            ca_file=files.get("caFile"),
        )

    def _read_forge(self, path: str, value: Mapping[str, str] | None, target: SourceTarget) -> ForgeProject | None:
        """Return the project at the forge, or None if the field is absent or invalid."""
        if not value or "tokenFile" not in value:
            return None
        token = self.resolve_file(f"{path}.tokenFile", value["tokenFile"])
        if "url" in value and not self.parse_field(f"{path}.url", parse_web_url, value["url"]):
            return None
        try:
            return ForgeProject.from_url(
                target.url,
                token,
                kind=value.get("kind", ""),
                api=value.get("url", ""),
                project=value.get("repository", ""),
            )
        except UnknownForge as error:
            self.problems.add_problem(path, str(error))
            return None

    def _read_verification(self, path: str, value: Mapping[str, str] | None) -> Verification | None:
        if not value:
            return None
        key_files = {name: text for name, text in value.items() if name != "mode"}
        if not key_files:
            self.problems.add_problem(path, "names no keys; write allowedSignersFile, or keyringFile for OpenPGP")
        files = self.resolve_files(path, key_files)
        return Verification(
            value.get("mode") == "EveryCommit", files.get("allowedSignersFile"), files.get("keyringFile")
        )


def _parse_adoption(value: Any) -> Adoption:
    """Return the adoption in the field `adopt`: a policy or an object. The schema has already checked the field."""
    if isinstance(value, str):
        value = {"policy": value}
    return Adoption.parse(f"{value['policy']}:{','.join(value.get('from', ()))}") if value else NO_ADOPTION
