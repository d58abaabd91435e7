"""The form of `levelgate.yaml`, as OpenAPI v3. What a form cannot say (durations, URLs, files, names that belong together) is checked where it is
read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from applier.adoption import TOOLS, AdoptPolicy
from applier.reasons import Happening, Reason
from gitops.forge.connect import Kind
from renderer.identity import OWN_NAMESPACE

API_VERSION: Final = "levelgate.dev/v1alpha1"
KIND: Final = "Config"


def _fields(*required: str, **properties: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}


def _one_of(words: Iterable[str]) -> dict[str, Any]:
    return {"type": "string", "enum": [str(word) for word in words]}


LOG_FORMATS: Final = ("text", "json")
_TEXT: Final = {"type": "string", "minLength": 1}
_TEXTS: Final = {"type": "array", "items": _TEXT}
_ADOPT_POLICY: Final = _one_of(AdoptPolicy)
ADOPT: Final = _fields(
    "policy", policy=_ADOPT_POLICY, **{"from": {"type": "array", "minItems": 1, "items": _one_of(TOOLS)}}
)
"""What `adopt` is where it is more than a word."""

_SOURCE: Final = _fields(
    "name",
    "url",
    name=_TEXT,
    url=_TEXT,
    ref=_fields(branch=_TEXT, tag=_TEXT, semver=_TEXT, commit=_TEXT),
    path=_TEXT,
    interval=_TEXT,
    policies=_one_of(("Own", "All")),
    credentials=_fields(tokenFile=_TEXT, username=_TEXT, caFile=_TEXT, sshKeyFile=_TEXT, knownHostsFile=_TEXT),
    dependsOn=_TEXTS,
    adopt={"oneOf": [_ADOPT_POLICY, ADOPT]},
    brake=_fields(
        deletions={"type": "integer", "minimum": 0}, percent={"type": "integer", "minimum": 0, "maximum": 100}
    ),
    prune={"type": "boolean"},
    suspend=_TEXT,
    serviceAccount=_TEXT,
    requirePlan={"type": "boolean"},
    forge=_fields("tokenFile", kind=_one_of(Kind), url=_TEXT, repository=_TEXT, tokenFile=_TEXT),
    verify=_fields("mode", mode=_one_of(("Head", "EveryCommit")), allowedSignersFile=_TEXT, keyringFile=_TEXT),
)
_EXTERNAL: Final = _fields(
    "name",
    "http",
    "maxAge",
    name=_TEXT,
    http=_fields("url", "expect", url=_TEXT, expect=_TEXT, timeout=_TEXT),
    maxAge=_TEXT,
)
_NOTIFICATION: Final = _fields(
    "name",
    name=_TEXT,
    webhook=_fields("url", "secretFile", url=_TEXT, secretFile=_TEXT),
    slack=_fields("urlFile", urlFile=_TEXT),
    github=_fields("repository", "tokenFile", repository=_TEXT, tokenFile=_TEXT, url=_TEXT),
    gitlab=_fields("project", "tokenFile", project=_TEXT, tokenFile=_TEXT, url=_TEXT),
    events={"type": "array", "minItems": 1, "items": _one_of(sorted({*Happening, *Reason}))},
    sources=_TEXTS,
    template=_TEXT,
)
PROVIDERS: Final = ("github", "gitlab", "gitea", "bitbucket", "generic")
"""Whose hooks are understood; each has a path of its own."""

FORM: Final = _fields(
    "apiVersion",
    "kind",
    "sources",
    apiVersion=_one_of((API_VERSION,)),
    kind=_one_of((KIND,)),
    cluster=_fields(context=_TEXT),
    namespace=_one_of((OWN_NAMESPACE,)),
    applyConcurrency={"type": "integer", "minimum": 1, "maximum": 256},
    maxConcurrentReconciles={"type": "integer", "minimum": 1, "maximum": 64},
    shards={"type": "integer", "minimum": 1, "maximum": 64},
    sources={"type": "array", "minItems": 1, "items": _SOURCE},
    externals={"type": "array", "items": _EXTERNAL},
    notifications={"type": "array", "items": _NOTIFICATION},
    listen=_TEXT,
    resync=_TEXT,
    logFormat=_one_of(LOG_FORMATS),
    hooks=_fields(**{name: _fields("secretFile", secretFile=_TEXT) for name in PROVIDERS}),
)
