"""Coverage-guided fuzzing of the whole render path: `make fuzz`, or `python -m tests.support.fuzz SECONDS` with atheris installed.

An input is a file of definitions and instances, or an expression in every field that may hold one. Whatever it is, the answer are problems: a
traceback, more than LONGEST seconds or more than MOST megabytes are a crash. What crashes is written to the current directory as `crash-...`.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

try:
    import atheris  # type: ignore[import-not-found, import-untyped, unused-ignore]
except ImportError:
    sys.exit("atheris cannot be imported; `make fuzz` installs it where there is one for this Python")

with atheris.instrument_imports(include=["renderer"]):
    from tests.support.properties.language import TEXT, bomb, doubled, go_through
    from tests.support.properties.repositories import config_map, definition, instance, widget

LONGEST = 20
MOST = 1500
SAMPLE = Path(__file__).parents[2] / "sample-repo"
EXPRESSIONS = (
    "'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!'.matches('(a+)+$')",
    "lists.range(2000).all(a, lists.range(2000).all(b, lists.range(2000).all(c, a + b + c >= 0)))",
    doubled(40),
    "schema.spec.text + '-' + string(size(free.status.list))",
    "free.?status.?x.orValue('') in {'a': [1, 2.5, b'c']} ? omit() : json.marshal(free)",
    "a.metadata.creationTimestamp + duration('1h') > timestamp('2026-01-01T00:00:00Z')",
    "[1, 2].transformMap(i, v, {?'k': optional.of(v)}) == schema.spec",
)


def seeds() -> list[bytes]:
    """Inputs to start from: files, and those that mean an expression."""
    files = [TEXT.encode(), *(path.read_bytes() for path in SAMPLE.rglob("*.yaml")), bomb(9).encode()]
    return [*(b"f" + data for data in files), *(b"e" + text.encode() for text in EXPRESSIONS)]


def with_expression(text: str) -> dict[str, bytes]:
    """A platform in which this expression stands wherever one may stand."""
    written = f"${{{text}}}"
    node: dict[str, Any] = config_map("b", readyWhen=[written])
    node["template"]["data"] = {"alone": written, "in": f"a text {written}"}
    many = config_map("many", name="m-${i}", forEach=[{"i": written}])
    resources = [config_map("a"), widget("free"), node, config_map("c", includeWhen=[written]), many]
    status = {"field": written, "conditions": [f"${{runtime.newCondition({{type: 'T', status: {text}}})}}"]}
    # One at a time: a definition that does not build would hide the others.
    files = {
        f"{index}.json": definition(f"K{index}", [resources[0], resources[1], one])
        for index, one in enumerate(resources[2:])
    }
    files["s.json"] = definition("Stated", resources[:2], status=status)
    files |= {f"i-{kind}.json": instance(kind, "x") for kind in ("K0", "K1", "K2", "Stated")}
    return {name: json_text.encode() for name, json_text in files.items()}


def once(data: bytes) -> None:
    kind, rest = data[:1], data[1:]
    if kind == b"e":
        go_through(with_expression(rest.decode(errors="replace")))
    else:
        go_through({"a.yaml": rest, "b.json": json.dumps(json.loads(instance("Link", "z"))).encode()})


def main(seconds: str) -> None:
    with tempfile.TemporaryDirectory(prefix="levelgate-fuzz-") as name:
        corpus = Path(name)
        for number, seed in enumerate(seeds()):
            (corpus / f"{number:04}").write_bytes(seed)
        limits = (f"-max_total_time={seconds}", f"-timeout={LONGEST}", f"-rss_limit_mb={MOST}", "-max_len=20000")
        atheris.Setup([sys.argv[0], *limits, str(corpus)], once)
        atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "300")
