"""Published data of the built-in kinds of Kubernetes: discovery, OpenAPI v3 schemas, and Go structures.

The schemas contain no descriptions. `make schemas` generates the files from a real API server and the sources of
Kubernetes. The files describe the version of Kubernetes that `kinds.json.gz` names. The module reads each file once, at
the first use of the file, and is otherwise pure.
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
    """The version of Kubernetes that the API server reports, such as `v1.36.4`."""
    discovery: Sequence[Mapping[str, Any]]
    """The items of an APIGroupDiscoveryList (apidiscovery.k8s.io/v2). The first item is the core group with an empty
    name.
    """
    definitions: Mapping[str, Schema]
    """The schema of each `$ref`, by the last part of the `$ref`."""
    kinds: Mapping[str, str]
    """The name of each kind's schema in `definitions`, by the `kind_key` of the kind."""

    def schema(self, group: str, version: str, kind: str) -> Schema | None:
        """Return the schema of a kind, with its references unresolved, or None if the kind is not built in."""
        definition_name = self.kinds.get(kind_key(group, version, kind))
        return self.definitions[definition_name] if definition_name else None


def kind_key(group: str, version: str, kind: str) -> str:
    """Return the key of a kind in `BuiltinSchemas.kinds`.

    Args:
        group: API group, empty for the core group.
    """
    return f"{group}/{version}/{kind}"


@cache
def load_builtin_schemas() -> BuiltinSchemas:
    """Return the data of the built-in kinds. The first call reads the data from a file, in about 15 ms."""
    return BuiltinSchemas(**_read_json(KINDS_FILE))


Structures = Mapping[str, Sequence[Sequence[Any]]]
"""The fields of the Go structure of each schema, in order, by the schema's name in `BuiltinSchemas.definitions`.

A field is a name, the field number in protobuf (0 if protobuf has no such field), and a presence. A field with an empty
name is inlined in JSON and is a separate message in protobuf. The third item of an inlined field is the name of the
field's schema instead of a presence.

The presence is a word for the condition under which the API server writes the field:

* `omitempty`: the API server omits an empty value
* `pointer`: the API server omits an absent value
* `always`: the API server always writes the field, even without a value
* `null`: the API server always writes the field, with null for an absent value
"""


@cache
def load_structures() -> Structures:
    """Return the Go structures of the built-in kinds, which determine the fields that the API server writes.

    The first call reads a file, in about 3 ms.
    """
    content: Structures = _read_json(STRUCTURES_FILE)
    return content


def _read_json(file: str) -> Any:
    return orjson.loads(gzip.decompress(resources.files(__name__).joinpath(file).read_bytes()))
