"""I10: a value of a Secret that an expression makes is in no form of a plan or a simulation, whoever copies, refuses or fails on it."""

from __future__ import annotations

import base64
import json

import pytest

from gitops.cli import invoke
from tests.support.git.repository import Repository
from tests.support.properties.repositories import GROUP, definition, instance

MADE = "'c4nary ' + schema.spec.text + ' of an expression'"
READ = "string(secret.data.token)"


def template(kind: str, name: str, *, labels: dict[str, str] | None = None, **more: object) -> dict[str, object]:
    metadata = {"name": f"${{schema.metadata.name}}-{name}", "labels": labels or {}}
    return {"id": name, "template": {"apiVersion": "v1", "kind": kind, "metadata": metadata, **more}}


def files(text: str) -> dict[str, str | None]:
    """A Secret in a field of its own and one in plain text; what copies it, cannot read it as a number, and is refused for it."""
    resources = [
        template(
            "Secret",
            "secret",
            data={"token": f"${{bytes({MADE})}}"},
            stringData={"plain": f"${{{MADE}}}"},
        ),
        template("ConfigMap", "copy", data={"url": f"postgres://${{{READ}}}@db"}),
        template("ConfigMap", "number", data={"number": f"${{string(int({READ}))}}"}),
        template("ConfigMap", "label", labels={"l": f"${{{READ}}}"}, data={}),
    ]
    vault = definition("Vault", resources, spec={"text": "string"})
    return {
        "vault.json": vault,
        "v.json": instance("Vault", "v", text=text),
        "w.json": instance("Vault", f"w-{text}", text=text),
    }


@pytest.mark.parametrize(
    ("command", "form"),
    [("plan", form) for form in ("text", "json", "markdown", "sarif", "junit")]
    + [("simulate", form) for form in ("text", "json", "svg")],
)
def test_a_value_that_is_made_is_shown_nowhere(
    repository: Repository, capsys: pytest.CaptureFixture[str], command: str, form: str
) -> None:
    repository.commit(files("one"))
    repository.commit(files("two"))
    more = [f"vault.{GROUP}/v"] if (command, form) == ("plan", "text") else []
    code = invoke([command, str(repository.path), *more, "--base", "main~1", "--head", "main", "-o", form])
    printed = capsys.readouterr()
    values = [f"c4nary {text} of an expression" for text in ("one", "two")]
    forms = [piece for one in values for piece in (one, base64.b64encode(one.encode()).decode(), json.dumps(one)[1:-1])]
    assert code == (command == "plan"), "what quotes a value is refused"
    assert form == "svg" or "(secret #" in printed.out or "(value of Secret " in printed.out
    assert [one for one in forms if one in printed.out + printed.err] == []
