"""The form of `levelgate.yaml`, as OpenAPI v3. What a form cannot say (durations, URLs, files, names that belong together) is checked where it is
read.
"""

from __future__ import annotations

from typing import Final

from applier.applyset.adoption import TOOLS, AdoptPolicy
from applier.causes import EventReason, Reason
from gitops.forge.connect import ForgeKind
from renderer.identity import OWN_NAMESPACE
from renderer.kinds import OWN_API_VERSION
from renderer.schema.form import fields, one_of

LOG_FORMATS: Final = ("text", "json")
_TEXT: Final = {"type": "string", "minLength": 1}
_TEXTS: Final = {"type": "array", "items": _TEXT}
_ADOPT_POLICY: Final = one_of(AdoptPolicy)
ADOPT: Final = fields(
    "policy", policy=_ADOPT_POLICY, **{"from": {"type": "array", "minItems": 1, "items": one_of(TOOLS)}}
)
"""What `adopt` is where it is more than a word."""

_SOURCE: Final = fields(
    "name",
    "url",
    name=_TEXT,
    url=_TEXT,
    ref=fields(branch=_TEXT, tag=_TEXT, semver=_TEXT, commit=_TEXT),
    path=_TEXT,
    interval=_TEXT,
    policies=one_of(("Own", "All")),
    credentials=fields(tokenFile=_TEXT, username=_TEXT, caFile=_TEXT, sshKeyFile=_TEXT, knownHostsFile=_TEXT),
    dependsOn=_TEXTS,
    adopt={"oneOf": [_ADOPT_POLICY, ADOPT]},
    brake=fields(
        deletions={"type": "integer", "minimum": 0}, percent={"type": "integer", "minimum": 0, "maximum": 100}
    ),
    prune={"type": "boolean"},
    suspend=_TEXT,
    serviceAccount=_TEXT,
    requirePlan={"type": "boolean"},
    forge=fields("tokenFile", kind=one_of(ForgeKind), url=_TEXT, repository=_TEXT, tokenFile=_TEXT),
    verify=fields("mode", mode=one_of(("Head", "EveryCommit")), allowedSignersFile=_TEXT, keyringFile=_TEXT),
)
_EXTERNAL: Final = fields(
    "name",
    "http",
    "maxAge",
    name=_TEXT,
    http=fields("url", "expect", url=_TEXT, expect=_TEXT, timeout=_TEXT),
    maxAge=_TEXT,
)
_NOTIFICATION: Final = fields(
    "name",
    name=_TEXT,
    webhook=fields("url", "secretFile", url=_TEXT, secretFile=_TEXT),
    slack=fields("urlFile", urlFile=_TEXT),
    github=fields("repository", "tokenFile", repository=_TEXT, tokenFile=_TEXT, url=_TEXT),
    gitlab=fields("project", "tokenFile", project=_TEXT, tokenFile=_TEXT, url=_TEXT),
    events={"type": "array", "minItems": 1, "items": one_of(sorted({*EventReason, *Reason}))},
    sources=_TEXTS,
    template=_TEXT,
)
PROVIDERS: Final = ("github", "gitlab", "gitea", "bitbucket", "generic")
"""Whose hooks are understood; each has a path of its own."""

FORM: Final = fields(
    "apiVersion",
    "kind",
    "sources",
    apiVersion=one_of((OWN_API_VERSION,)),
    kind=one_of(("Config",)),
    cluster=fields(name=_TEXT, context=_TEXT),
    namespace=one_of((OWN_NAMESPACE,)),
    applyConcurrency={"type": "integer", "minimum": 1, "maximum": 256},
    maxConcurrentReconciles={"type": "integer", "minimum": 1, "maximum": 64},
    sources={"type": "array", "minItems": 1, "items": _SOURCE},
    externals={"type": "array", "items": _EXTERNAL},
    notifications={"type": "array", "items": _NOTIFICATION},
    listen=_TEXT,
    resync=_TEXT,
    logFormat=one_of(LOG_FORMATS),
    hooks=fields(**{name: fields("secretFile", secretFile=_TEXT) for name in PROVIDERS}),
)
