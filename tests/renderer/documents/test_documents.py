"""The YAML loader: what it reads equals what kubectl reads from the same text, or it refuses the file and says why."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from renderer.documents import MAX_FILE_BYTES, Document, ambiguities, load


def read(text: str | bytes) -> list[Document]:
    documents, problems = load("app.yaml", text.encode() if isinstance(text, str) else text)
    assert problems == []
    return documents


def refuse(text: str | bytes) -> list[str]:
    documents, problems = load("app.yaml", text.encode() if isinstance(text, str) else text)
    assert documents == []
    assert problems
    return [str(problem) for problem in problems]


def value_of(text: str) -> Any:
    return read(f"v: {text}\n")[0].value["v"]


# --- scalars -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("yes", True),
        ("Off", False),
        ("y", True),
        ("N", False),
        ("~", None),
        ("", None),
        ("NULL", None),
        ("0777", 511),
        ("0o777", 511),
        ("0b11", 3),
        ("0x1F", 31),
        ("1_000", 1000),
        ("08", 8),
        ("-0", 0),
        ("1e3", 1000),
        ("1.0", 1),
        ("1.5", 1.5),
        (".5", 0.5),
        ("1e400", "1e400"),
        ("0x1p4", "0x1p4"),
        ("12:30:45", "12:30:45"),
        ("2024-01-01", "2024-01-01"),
        ("=", "="),
        ("<", "<"),
        ("1.2.3", "1.2.3"),
        ("100m", "100m"),
        ("nginx:1.27", "nginx:1.27"),
        ("yES", "yES"),
        ('"yes"', "yes"),
        ("'0777'", "0777"),
        ("!!str 0777", "0777"),
        ("!!int 7", 7),
        ("9223372036854775807", 2**63 - 1),
        ("18446744073709551615", float(2**64 - 1)),
    ],
)
def test_scalar_is_read_as_kubernetes_reads_it(text: str, value: Any) -> None:
    found = value_of(text)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (".inf", "not a number in JSON"),
        ("-.INF", "not a number in JSON"),
        (".NaN", "not a number in JSON"),
        ("18446744073709551616", "does not fit into 64 bits"),
        ("-9223372036854775809", "does not fit into 64 bits"),
        ("0x" + "F" * 17, "does not fit into 64 bits"),
        ("9" * 100_000, "does not fit into 64 bits"),
        ("!!python/object/apply:os.system [ls]", "is not supported"),
        ("!!python/name:os.system x", "is not supported"),
        ("!!binary aGk=", "tag !!binary is not supported"),
        ("!!timestamp 2024-01-01", "is not supported"),
        ("!custom x", "tag !custom is not supported"),
        ("!!set {a, b}", "is not supported"),
        ("!!map [a]", "is not supported"),
        ("!!int x", "does not have the type"),
        ("!!int '7x'", "does not have the type"),
    ],
)
def test_scalar_without_json_value_is_refused(text: str, reason: str) -> None:
    assert any(reason in problem for problem in refuse(f"v: {text}\n"))


def test_scalars_that_surprise_people_are_listed_for_lint() -> None:
    text = b"a: yes\nb: 'no'\ny: true\nmode: 0644\nid: 08\nn: !!str on\nzero: 0\nbad: .inf\n"
    assert [str(problem).partition("; ")[0] for problem in ambiguities("app.yaml", text)] == [
        "app.yaml:1: yes is read as true",
        "app.yaml:3: y is read as true",
        "app.yaml:4: 0644 is read as the number 420",
        "app.yaml:5: 08 is read as the number 8",
        "app.yaml:6: n is read as false",
    ]


# --- keys --------------------------------------------------------------------------------------------------------


def test_keys_that_are_not_text_become_text() -> None:
    assert read("1: a\ntrue: b\n0777: c\n2024-01-01: d\n")[0].value == {
        "1": "a",
        "true": "b",
        "511": "c",
        "2024-01-01": "d",
    }


@pytest.mark.parametrize("key", ["~", "1.5", "null", "? [a]\n", "? {a: 1}\n", "[a, b]"])
def test_key_without_text_form_is_refused(key: str) -> None:
    assert refuse(f"{key}: x\n")


@pytest.mark.parametrize(
    "text", ["a: 1\nreplicas: {{ .Values.replicas }}\n", "a: 1\n{{- if .Values.b }}\nb: 2\n{{- end }}\n"]
)
def test_a_template_of_a_chart_is_told_from_a_slip(text: str) -> None:
    """Whoever comes from Helm, Flux or Argo CD has such files; the same in quotes is text."""
    (told,) = refuse(text)
    assert told.startswith("app.yaml:2: ")
    assert "`helm template`" in told
    assert read('a: "{{ $value }}"\n')[0].value == {"a": "{{ $value }}"}


def test_duplicate_key_is_reported_with_both_lines() -> None:
    (problem,) = refuse("kind: A\nspec:\n  size: 1\n  other: 2\n  size: 3\n")
    assert problem == "app.yaml:5: spec: duplicate key 'size' (line 5, column 3; first at line 3); keep one of them"


def test_keys_that_become_equal_text_are_duplicates() -> None:
    assert "duplicate key '1'" in refuse('1: a\n"1": b\n')[0]


def test_all_duplicate_keys_of_a_file_are_reported() -> None:
    assert len(refuse("a: 1\na: 2\n---\nb: {c: 1, c: 2}\n")) == 2


def test_duplicate_key_in_a_list_has_its_path() -> None:
    (problem,) = refuse("spec:\n  items:\n  - a: 1\n  - b: 1\n    b: 2\n")
    assert "spec.items[1]: duplicate key 'b' (line 5, column 5; first at line 4)" in problem


# --- aliases and merges ------------------------------------------------------------------------------------------


def test_merge_key_gives_defaults_that_later_keys_override() -> None:
    (document,) = read("base: &base {a: 1, b: 2}\nuse:\n  <<: *base\n  b: 3\n")
    assert document.value["use"] == {"a": 1, "b": 3}


def test_merge_takes_a_list_of_which_the_first_wins() -> None:
    (document,) = read("x: &x {a: 1}\ny: &y {a: 2, b: 2}\nuse: {<<: [*x, *y]}\n")
    assert document.value["use"] == {"a": 1, "b": 2}


def test_merge_below_a_key_that_it_would_overwrite_is_refused() -> None:
    assert "put '<<' first" in refuse("base: &base {a: 1}\nuse: {a: 3, <<: *base}\n")[0]


def test_duplicate_key_after_a_merge_is_still_found() -> None:
    assert "duplicate key 'b'" in refuse("base: &base {a: 1}\nuse: {<<: *base, b: 1, b: 2}\n")[0]


@pytest.mark.parametrize("key", ['"<<"', "'<<'", "!!str <<"])
def test_merge_sign_that_is_marked_as_text_is_an_ordinary_key(key: str) -> None:
    assert read(f"{key}: 1\n")[0].value == {"<<": 1}


def test_merge_of_something_else_is_refused() -> None:
    assert "the value of '<<' is not a mapping" in refuse("<<: 1\n")[0]


def test_alias_gives_an_equal_value_that_is_not_shared() -> None:
    value = read("a: &x {b: [1]}\nc: *x\n")[0].value
    assert value["c"] == value["a"]
    value["c"]["b"].append(2)
    assert value["a"] == {"b": [1]}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a: *nowhere\n", "has no anchor"),
        ("a: &a [*a]\n", "inside its own anchor"),
        ("a: &x 1\n---\nb: *x\n", "has no anchor"),
    ],
)
def test_alias_that_leads_nowhere_is_refused(text: str, reason: str) -> None:
    assert reason in refuse(text)[0]


def test_alias_bomb_is_refused_before_it_is_built() -> None:
    levels = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    levels += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 9)]
    assert "aliases of this file expand to more than 1,000 values" in refuse("\n".join(levels))[0]


def test_aliases_cannot_exceed_the_depth_limit() -> None:
    deep = "x: &x " + "[" * 60 + "]" * 60 + "\ny: " + "[" * 60 + "*x" + "]" * 60 + "\n"
    assert "nested deeper than 100 levels" in refuse(deep)[0]


def test_a_thousand_expanded_nodes_are_allowed() -> None:
    uses = "\n".join(f"- *x # {n}" for n in range(100))
    text = f"x: &x [1, 2, 3, 4, 5, 6, 7, 8, 9]\nuses:\n{uses}\n"
    assert len(read(text)[0].value["uses"]) == 100


# --- limits ------------------------------------------------------------------------------------------------------


def test_depth_is_limited_for_flow_and_block_collections() -> None:
    assert value_of("[" * 99 + "]" * 99)
    assert "nested deeper than 100 levels" in refuse("v: " + "[" * 60_000)[0]
    assert "nested deeper than 100 levels" in refuse("\n".join(" " * n + "a:" for n in range(200)))[0]


def test_size_of_a_file_is_limited() -> None:
    assert "larger than 1 MiB" in refuse(b"a: " + b"x" * MAX_FILE_BYTES)[0]


def test_number_of_documents_is_limited() -> None:
    assert len(read("---\na: 1\n" * 10_000)) == 10_000
    assert "more than 10,000 documents" in refuse("---\na: 1\n" * 10_001)[0]


def test_number_of_items_is_limited() -> None:
    assert "more than 10,000 objects" in refuse("kind: List\nitems:\n" + "- {a: 1}\n" * 10_001)[0]


def test_number_of_reported_problems_is_limited() -> None:
    assert len(refuse("a: .inf\n---\n" * 100)) == 20


def test_same_mistake_is_reported_at_each_of_its_lines() -> None:
    assert [problem.partition(" ")[0] for problem in refuse("a: .nan\nb: .nan\n")] == ["app.yaml:1:", "app.yaml:2:"]


# --- streams -----------------------------------------------------------------------------------------------------


def test_documents_have_the_lines_of_their_content() -> None:
    documents = read("# head\n---\n\na: 1\n---\n# comment\nb: 2\n")
    assert [(document.line, document.value) for document in documents] == [(4, {"a": 1}), (7, {"b": 2})]


@pytest.mark.parametrize("text", ["", "\n", "# only a comment\n", "---\n---\n", "null\n", "--- # nothing\n~\n"])
def test_empty_documents_are_left_out(text: str) -> None:
    assert read(text) == []


def test_byte_order_mark_and_windows_line_ends_are_accepted() -> None:
    documents = read(b"\xef\xbb\xbfa: 1\r\nb: |\r\n  x\r\n  y\r\n---\r\nc: 2\r\n")
    assert [document.value for document in documents] == [{"a": 1, "b": "x\ny\n"}, {"c": 2}]


def test_comment_after_a_separator_is_accepted() -> None:
    assert len(read("a: 1\n--- # next\nb: 2\n")) == 2


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[a, b]\n", "the document is a list"),
        ("just text\n", "the document is a single value"),
        ("--- {a: 1}\n", "content on the line of '---'"),
        ("a: 1\n---b: 2\n", "text follows the dashes"),
        ("a: 1\n...\nb: 2\n", "separate documents with '---'"),
        ("a: 1\n...\n{b: 2}\n", "separate documents with '---'"),
        ("%YAML 1.1\n---\na: 1\n", "directives"),
    ],
)
def test_stream_that_kubectl_would_cut_otherwise_is_refused(text: str, reason: str) -> None:
    assert reason in refuse(text)[0]


def test_list_stands_for_its_items_with_their_lines() -> None:
    text = "apiVersion: v1\nkind: List\nitems:\n- kind: A\n  spec:\n    x: 1\n- kind: BList\n  items:\n  - kind: B\n"
    documents = read(text)
    assert [(document.line, document.value["kind"]) for document in documents] == [(4, "A"), (9, "B")]
    assert documents[0].line_of("spec.x") == 6


def test_item_of_a_list_that_is_no_object_is_refused() -> None:
    assert "app.yaml:3: items[0]: not an object" in refuse("kind: List\nitems:\n- text\n")[0]


def test_kind_that_only_ends_in_list_is_an_object() -> None:
    assert read("kind: AllowList\nspec: {}\n")[0].value["kind"] == "AllowList"


# --- syntax errors -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "where", "reason"),
    [
        ("a: 1\n\tb: 2\n", 2, "a tab in the indentation"),
        ("a:\n\t- b\n", 2, "a tab in the indentation"),
        ("a: b: c\n", 1, "column 5: a second ':'"),
        ("a: [1,\n 2\n", 3, "a '[' is not closed"),
        ("b: {c: ${x.y}}\n", 1, "such as ${...}"),
        ("a: 'text\n", 2, "add the closing quote (it began at line 1, column 4)"),
        ('a: "\\ud83d\\ude00"\n', 1, "write the character itself"),
        ("a: @x\n", 1, "put the value in quotes"),
        ("- a\nb: 1\n", 2, "has no '-'"),
        ("a: 1\n b: 2\n", 2, "indented differently"),
        ("a: \x00\n", 1, "control character U+0000"),
        (b"a: \xff\xfe\n", 1, "not UTF-8"),
        ("a: 1\nb: 2\n".encode("utf-16"), 1, "not UTF-8"),
    ],
)
def test_broken_text_is_explained_with_its_line(text: str | bytes, where: int, reason: str) -> None:
    (problem,) = refuse(text)
    assert problem.startswith(f"app.yaml:{where}: ")
    assert reason in problem


# --- lines -------------------------------------------------------------------------------------------------------

LINES = """\
apiVersion: v1
metadata:
  annotations:
    levelgate.dev/health: ignore
    levelgate.dev: other
spec:
  resources:
  - id: a
  - id: b
    template:
      spec: {size: 1,
        other: 2}
"""


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("", 1),
        ("spec", 6),
        ("spec.resources[1].id", 9),
        ("spec.resources[1].template.spec.other", 12),
        ("spec.resources[1].template.spec.missing.deeper", 11),
        ("spec.resources[7].id", 7),
        ("metadata.annotations.levelgate.dev/health", 4),
        ('metadata.annotations["levelgate.dev/health"]', 4),
        ("metadata.annotations[levelgate.dev/health]", 4),
        ("metadata.annotations.levelgate.dev", 5),
        ("nowhere", 1),
    ],
)
def test_line_of_a_path_is_that_of_the_nearest_place(path: str, line: int) -> None:
    second = read(f"# first line\n{LINES}---\nx: 1\n---\n{LINES}")[2]
    assert second.line_of(path) == line + 16


# --- against kubectl ---------------------------------------------------------------------------------------------

KUBECTL = shutil.which("kubectl", path=str(Path(sys.executable).parent)) or shutil.which("kubectl")
needs_kubectl = pytest.mark.skipif(KUBECTL is None, reason="kubectl is not installed")

HEADER = "apiVersion: v1\nkind: Probe\nmetadata: {name: probe}\n"


def kubectl_reads(texts: list[str]) -> list[Any]:
    """What kubectl makes of each text as the value of a key; `...` for what it refuses. No server is asked."""
    stream = "---\n".join(f"{HEADER}v:\n{text}\n" for text in texts)
    command = [str(KUBECTL), "annotate", "--local", "--filename", "-", "probe=1", "--output", "json"]
    done = subprocess.run(command, input=stream.encode(), capture_output=True, check=False)
    if done.returncode == 0 and texts:
        return _objects(done.stdout.decode())
    if len(texts) <= 1:
        return [...] * len(texts)
    half = len(texts) // 2
    return kubectl_reads(texts[:half]) + kubectl_reads(texts[half:])


def _objects(output: str) -> list[Any]:
    decoder, objects, at = json.JSONDecoder(), list[Any](), 0
    while at < len(output.rstrip()):
        value, end = decoder.raw_decode(output, at)
        objects.append(value["v"])
        at = end + len(output[end:]) - len(output[end:].lstrip())
    return objects


def assert_equal_or_refused(texts: list[str]) -> int:
    """Equal as JSON, where 1 and 1.0 are the same number but true and 1 are not. Returns how many were not refused."""
    ours: dict[str, Any] = {}
    for text in texts:
        documents, problems = load("probe.yaml", f"{HEADER}v:\n{text}\n".encode())
        assert len(documents) == (not problems), text
        if documents:
            ours[text] = documents[0].value["v"]
    for text, theirs in zip(ours, kubectl_reads(list(ours)), strict=True):
        assert theirs is not ..., f"kubectl refuses {text!r}"
        assert _typed(ours[text]) == _typed(theirs), text
    return len(ours)


def _typed(value: Any) -> Any:
    match value:
        case dict():
            return {key: _typed(item) for key, item in value.items()}
        case list():
            return [_typed(item) for item in value]
        case bool() | None | str():
            return (type(value).__name__, value)
        case _:
            return ("number", float(value))


SCALARS = """
no off yes on y n Y N yEs nO true TRUE tRue false null Null NULL nUll ~ True ON Off
0777 0o777 0O17 0b11 0B11 0x1F 0X1f 1_000 1__0 0_7 0x_1f 08 09 00 0 -0 +1 -1 +0x1F -0b11 -0o7 --1 +-1 1_ - + . .. ...a
1e3 1E3 1e+3 1e-3 1.5e3 .5 -.5 +.5 .5e1 5. 1. 1.0 1.e3 e3 1e 1e400 -1e400 1e-400 .1_0 .1__0 ._1 .1_ .e1 1_0.5 1_0e1_0
12:30:45 1:30 190:20:30 2024-01-01 2024-01-01T10:00:00Z 2001-12-14t21:59:43.10-05:00 1234-5 1_2-3
= < > << a<<b 1.2.3 1.30 100m 1Gi 0x 0b 0o 0b2 0o8 0xg 0x1p4 infinity inf nan NaN Infinity .infinity
9007199254740993 9223372036854775807 9223372036854775808 -9223372036854775808 0x8000000000000000 0xFFFFFFFFFFFFFFFF
1e18 1e19 1e20 1e21 1e22 123456789012345678.0 1e-7 0.1 3.14159265358979312
.inf -.inf +.inf .Inf .INF .nan .NaN .NAN
a:b http://x:80/y a#b :a -a ?a a,b key=value $x ${x} %d a%b @a `a *a &a !a |a >a ,a ]a }a
"""

TEXTS = [
    '"a\\tb\\u00e9\\x41"',
    "'it''s'",
    '"line\n   folded"',
    "plain\n   folded\n\n   twice",
    "|\n   a\n    b\n\n",
    "|-\n   a\n\n",
    "|+\n   a\n\n",
    ">\n   a\n   b\n\n   c\n",
    ">-\n   a\n     b\n   c\n",
    "|2\n   a\n",
    "[a, b: c, {d: e}, [f]]",
    "{a: 1, b, c: [~, yes]}",
    "{1: a, true: b, 0777: c, 1.5: d}",
    "{? a : b}",
    "- a\n -  - b\n    - c\n",
    "- a: 1\n   b: 2\n -\n",
    "a: 1 # comment\n b: 'x # y'",
    "&x [1, 2]",
    "[&x 1, *x, *x]",
    "{a: &x {p: 1, q: 2}, b: {<<: *x, q: 3}, c: {<<: [*x, {r: 1}]}}",
    "{a: &x {p: 1}, b: {p: 9, <<: *x}}",
    "{a: &x {p: 1}, b: {!!str <<: *x}}",
    "{a: &x <<, *x : 1}",
    "{a: &x {p: 1}, b: {<<: *x, <<: {q: 1}}}",
    "{<<: {a: 1}, b: {<<: []}}",
    "&k key: v\n *k : w",
    "!!str 12",
    "!!int 12",
    "!!float 12",
    "!!float '1.5'",
    "!!bool yes",
    "!!null ~",
    "!!binary aGk=",
    "!x 12",
    "! 12",
    "! '12'",
    "{a: 1, a: 2}",
    "{~: 1}",
    "[a:b, http://x:1, {a:b}]",
    "{a: ${x}, b: {{c}}}",
    '"\\ud83d\\ude00"',
    '"😀 \\U0001F600"',
    "'\u2028'",
    '"a\\\n   b"',
]


@needs_kubectl
def test_every_scalar_of_the_table_equals_what_kubectl_reads_or_is_refused() -> None:
    assert assert_equal_or_refused([f" {text}" for text in SCALARS.split()]) > 120


@needs_kubectl
def test_every_text_of_the_table_equals_what_kubectl_reads_or_is_refused() -> None:
    assert assert_equal_or_refused([f" {text}" for text in TEXTS]) > 20


_NUMBERISH = st.text("0123456789_+-.eExXoObBaAfFnNiIyY:~T", min_size=1, max_size=12)
_TEXTISH = st.text("aYn0.1-:#,[]{}&*!|>'\"%@`<=? \t\u00e9~/$()", min_size=1, max_size=12)
_NUMBERS = st.one_of(st.integers(-(2**70), 2**70).map(str), st.floats(allow_nan=False).map(repr))


@needs_kubectl
@settings(max_examples=12, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.one_of(_NUMBERISH, _NUMBERS), min_size=60, max_size=120))
def test_any_plain_number_equals_what_kubectl_reads_or_is_refused(texts: list[str]) -> None:
    assert_equal_or_refused([f" {text}" for text in texts])


@needs_kubectl
@settings(max_examples=12, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(_TEXTISH, min_size=40, max_size=80))
def test_any_text_equals_what_kubectl_reads_or_is_refused(texts: list[str]) -> None:
    assert_equal_or_refused([f" {text}" for text in texts])


@settings(max_examples=200, derandomize=True, deadline=None)
@given(st.binary(max_size=200))
def test_no_bytes_raise(data: bytes) -> None:
    documents, problems = load("any.yaml", data)
    assert not (documents and problems)


@settings(max_examples=300, derandomize=True, deadline=None)
@given(st.text("a1:- \n\t[]{},&*!|>'\"%#?<~", max_size=80))
def test_no_yamlish_text_raises(text: str) -> None:
    documents, problems = load("any.yaml", text.encode())
    assert not (documents and problems)
    for document in documents:
        assert document.line_of("a[0].b") >= document.line


_PRINTABLE = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cn", "Cs")), max_size=10)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | _PRINTABLE,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abcxyz.-/", min_size=1, max_size=6), inner),
    max_leaves=20,
)


@settings(max_examples=100, derandomize=True, deadline=None)
@given(st.dictionaries(st.text("abcxyz", min_size=1, max_size=4), _JSON, min_size=1))
def test_json_is_read_as_it_is(value: dict[str, Any]) -> None:
    assert read(json.dumps(value, ensure_ascii=False))[0].value == value


def cpu_seconds(files: Iterable[str]) -> float:
    begin = time.process_time()
    for text in files:
        load("app.yaml", text.encode())
    return time.process_time() - begin


def test_hostile_files_cost_no_more_than_honest_ones_of_their_size() -> None:
    """They cost a tenth; what grew faster than they do would cost a thousand times as much."""
    hostile = ["[" * 500_000, "{a: " * 200_000, "&a " * 1000, "? " * 300_000, "- " * 300_000, "'" * 999_999]
    honest = "".join(f"{letter}{n}: [1, {letter}]\n" for letter in "ab" for n in range(15_000))
    for text in hostile:
        refuse(text)
    assert cpu_seconds(hostile) < 10 * cpu_seconds([honest])
