"""The schema of `levelgate.yaml`, as OpenAPI v3.

The readers check rules that a schema cannot express: durations, URLs, files, and fields that belong together.
"""

from __future__ import annotations

from typing import Final

from applier.applyset.adoption import TOOLS, AdoptPolicy
from applier.causes import EventReason, Reason
from applier.state.field_conflicts import ConflictPolicy
from gitops.forge.connect import ForgeKind
from renderer.identity import OWN_NAMESPACE
from renderer.kinds import OWN_API_VERSION
from renderer.schema.validation import enum_form, object_form

LOG_FORMATS: Final = ("text", "json")
_TEXT: Final = {"type": "string", "minLength": 1}
_TEXTS: Final = {"type": "array", "items": _TEXT}
_ADOPT_POLICY_SCHEMA: Final = enum_form(AdoptPolicy)
ADOPT_SCHEMA: Final = object_form(
    "policy", policy=_ADOPT_POLICY_SCHEMA, **{"from": {"type": "array", "minItems": 1, "items": enum_form(TOOLS)}}
)
"""Form of `adopt` as an object, instead of a policy alone."""

_SOURCE_SCHEMA: Final = object_form(
    "name",
    "url",
    name=_TEXT,
    url=_TEXT,
    ref=object_form(branch=_TEXT, tag=_TEXT, name=_TEXT, semver=_TEXT, commit=_TEXT),
    path=_TEXT,
    interval=_TEXT,
    policies=enum_form(("Own", "All")),
    credentials=object_form(tokenFile=_TEXT, username=_TEXT, caFile=_TEXT, sshKeyFile=_TEXT, knownHostsFile=_TEXT),
    dependsOn=_TEXTS,
    adopt={"oneOf": [_ADOPT_POLICY_SCHEMA, ADOPT_SCHEMA]},
    conflicts=enum_form(ConflictPolicy),
    brake=object_form(
        deletions={"type": "integer", "minimum": 0}, percent={"type": "integer", "minimum": 0, "maximum": 100}
    ),
    prune={"type": "boolean"},
    suspend=_TEXT,
    serviceAccount=_TEXT,
    requirePlan={"type": "boolean"},
    forge=object_form("tokenFile", kind=enum_form(ForgeKind), url=_TEXT, repository=_TEXT, tokenFile=_TEXT),
    verify=object_form("mode", mode=enum_form(("Head", "EveryCommit")), allowedSignersFile=_TEXT, keyringFile=_TEXT),
)
_EXTERNAL_SCHEMA: Final = object_form(
    "name",
    "http",
    "maxAge",
    name=_TEXT,
    http=object_form("url", "expect", url=_TEXT, expect=_TEXT, timeout=_TEXT),
    maxAge=_TEXT,
)
_NOTIFICATION_SCHEMA: Final = object_form(
    "name",
    name=_TEXT,
    webhook=object_form("url", "secretFile", url=_TEXT, secretFile=_TEXT),
    slack=object_form("urlFile", urlFile=_TEXT),
    github=object_form("repository", "tokenFile", repository=_TEXT, tokenFile=_TEXT, url=_TEXT),
    gitlab=object_form("project", "tokenFile", project=_TEXT, tokenFile=_TEXT, url=_TEXT),
    events={"type": "array", "minItems": 1, "items": enum_form(sorted({*EventReason, *Reason}))},
    sources=_TEXTS,
    template=_TEXT,
)
_PLUGIN_SCHEMA: Final = object_form(
    "name",
    "command",
    name=_TEXT,
    command=_TEXT,
    arguments={"type": "array", "items": {"type": "string"}},
    environment={"type": "object", "additionalProperties": {"type": "string"}},
)
WEBHOOK_PROVIDERS: Final = ("github", "gitlab", "gitea", "bitbucket", "generic")
"""Senders of webhooks that Levelgate can read. The webhook of each sender has its own URL path."""

CONFIG_SCHEMA: Final = object_form(
    "apiVersion",
    "kind",
    "sources",
    apiVersion=enum_form((OWN_API_VERSION,)),
    kind=enum_form(("Config",)),
    cluster=object_form(name=_TEXT, context=_TEXT),
    namespace=enum_form((OWN_NAMESPACE,)),
    applyConcurrency={"type": "integer", "minimum": 1, "maximum": 256},
    maxConcurrentReconciles={"type": "integer", "minimum": 1, "maximum": 64},
    sources={"type": "array", "minItems": 1, "items": _SOURCE_SCHEMA},
    externals={"type": "array", "items": _EXTERNAL_SCHEMA},
    notifications={"type": "array", "items": _NOTIFICATION_SCHEMA},
    listen=_TEXT,
    resync=_TEXT,
    logFormat=enum_form(LOG_FORMATS),
    fleet=object_form(
        "source",
        source=_TEXT,
        directory=_TEXT,
        profileNamespace=_TEXT,
        plugins={"type": "array", "items": _PLUGIN_SCHEMA},
    ),
    hooks=object_form(**{name: object_form("secretFile", secretFile=_TEXT) for name in WEBHOOK_PROVIDERS}),
)
