"""S3-10: the name of a cluster is a value of its own, of one form."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from applier.cluster import LOCAL_CLUSTER, ClusterName, parse_cluster_name

ROOT = Path(__file__).resolve().parents[2]
LABELS = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", fullmatch=True)


def is_label(text: str) -> bool:
    """DNS-1123, by its words (Kubernetes documentation, "Object Names and IDs")."""
    letters = "abcdefghijklmnopqrstuvwxyz0123456789"
    is_made_of = all(letter in f"{letters}-" for letter in text)
    return 1 <= len(text) <= 63 and is_made_of and text[0] in letters and text[-1] in letters


@given(
    st.text(alphabet=st.sampled_from("ab9-#.A_/ \nä"), max_size=70) | LABELS | st.builds("{}#{}".format, LABELS, LABELS)
)
@example("a" * 63)
@example("a" * 64)
@example("eu-1\n")
@example("capi#eu-1")
@example("capi#")
@example("#eu-1")
@example("a#b#c")
def test_a_name_is_a_label_or_a_provider_and_a_label(text: str) -> None:
    """S3-10."""
    parts = text.split("#")
    if len(parts) <= 2 and all(map(is_label, parts)):
        assert parse_cluster_name(text) == text
    else:
        with pytest.raises(
            ValueError, match=re.escape(f"{text!r} cannot name a cluster; write at most 63 lowercase letters")
        ):
            parse_cluster_name(text)


def test_mypy_refuses_a_bare_text() -> None:
    """S3-10: `make check` fails where one of these is no mistake, since nothing needs to be ignored then."""
    name: ClusterName = "eu-1"  # type: ignore[assignment]
    names: dict[ClusterName, int] = {"eu-1": 1}  # type: ignore[dict-item]
    assert (name, *names) == ("eu-1", "eu-1")
    assert parse_cluster_name("local") == LOCAL_CLUSTER


def test_nobody_else_makes_names() -> None:
    """S3-10: nor does a cast."""
    makers = set()
    for package in ("applier", "gitops", "renderer"):
        for path in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                match node:
                    case (
                        ast.Call(func=ast.Name("ClusterName"))
                        | ast.Call(func=ast.Name("cast"), args=[ast.Name("ClusterName"), _])
                    ):
                        makers.add(str(path.relative_to(ROOT)))
    assert makers == {"applier/cluster.py"}
