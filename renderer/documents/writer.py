"""Writer of manifests as YAML from which Kubernetes reads the same values.

Keys keep their order. If Kubernetes would read a text as a value of another type, the writer quotes the text.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import yaml

from renderer.documents.scalars import ScalarError, resolve


class _Dumper(yaml.CSafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


def _represent_text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None if _is_plain(text) else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


def _is_plain(text: str) -> bool:
    try:
        return resolve(text) == text and isinstance(resolve(text), str)
    except ScalarError:
        return False


_Dumper.add_representer(str, _represent_text)


def dump(manifests: Iterable[object]) -> str:
    """Return one YAML document for each manifest, with `---` before each."""
    return yaml.dump_all(
        manifests, Dumper=_Dumper, sort_keys=False, explicit_start=True, width=4096, allow_unicode=True
    )
