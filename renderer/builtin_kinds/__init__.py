"""Published data of the built-in kinds of Kubernetes: discovery, OpenAPI v3 schemas, and Go structures.

The schemas have no descriptions. `make schemas` makes the files from a real API server and its sources. The files hold
for the version of Kubernetes that `kinds.json.gz` names. Pure, except that each file is read once, when it is first
needed.
"""

from __future__ import annotations

import gzip
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any, Final

import orjson

from renderer.frozen import dataclass

KINDS_FILE: Final = "kinds.json.gz"
STRUCTURES_FILE: Final = "structures.json.gz"

Schema = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class BuiltinSchemas:
    """The discovery data and OpenAPI schemas of one version of Kubernetes."""

    version: str
    """The version as the API server reports it, such as `v1.36.4`."""
    discovery: Sequence[Mapping[str, Any]]
    """The items of an APIGroupDiscoveryList (apidiscovery.k8s.io/v2), starting with the core group, whose name is
    empty.
    """
    definitions: Mapping[str, Schema]
    """The schemas, by the last part of the `$ref` that names them."""
    kinds: Mapping[str, str]
    """The name in `definitions` of each kind, by `kind_key`."""

    def schema(self, group: str, version: str, kind: str) -> Schema | None:
        """Return the schema of a kind with references unresolved, or None if the kind is not built in."""
        definition_name = self.kinds.get(kind_key(group, version, kind))
        return self.definitions[definition_name] if definition_name else None


def kind_key(group: str, version: str, kind: str) -> str:
    """Return the key of a kind in `BuiltinSchemas.kinds`. For the core group, `group` is empty."""
    return f"{group}/{version}/{kind}"


@cache
def load_builtin_schemas() -> BuiltinSchemas:
    """Return the built-in kinds. The first call reads them from files, in some 15 ms."""
    return BuiltinSchemas(**_read_json(KINDS_FILE))


Structures = Mapping[str, Sequence[Sequence[Any]]]
"""By name in `BuiltinSchemas.definitions`, the fields of the Go structure of a definition, in order.

A field has a name, a number in protobuf (0 if it has none), and a presence. A field with an empty name is inlined in
JSON and is a message of its own in protobuf. The third item of such a field is its definition instead of a presence.

The presence is one of these words:

* `omitempty`: written unless it is empty
* `pointer`: written if a value was given
* `always`: written even if no value was given
* `null`: written as null if no value was given
"""


@cache
def load_structures() -> Structures:
    """Return how the API server stores the built-in kinds. The first call reads a file, in some 3 ms."""
    content: Structures = _read_json(STRUCTURES_FILE)
    return content


def _read_json(file: str) -> Any:
    return orjson.loads(gzip.decompress(resources.files(__name__).joinpath(file).read_bytes()))
