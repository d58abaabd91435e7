"""Texts without values of Secrets (I10): in which forms they are recognised, and what stays as it is."""

from __future__ import annotations

import base64
import json
from urllib.parse import quote

import pytest

from renderer import well_known
from renderer.secret_redaction import SecretRedactor, without_secret_data

TOLD = "(value of Secret prod/db)"
VALUE, LONG = 'pa55 "word"', "0123456789" * 8


def discretion(value: str) -> SecretRedactor:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "db", "namespace": "prod"}}
    other = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": {"a": "plain text"}}
    return SecretRedactor([{**secret, "data": {"a": base64.b64encode(value.encode()).decode()}}, other])


@pytest.mark.parametrize(
    "form", [VALUE, base64.b64encode(VALUE.encode()).decode(), quote(VALUE, safe=""), json.dumps(VALUE)[1:-1]]
)
def test_a_value_in_any_form(form: str) -> None:
    assert discretion(VALUE)(f'Invalid value: "{form}": too plain text') == f'Invalid value: "{TOLD}": too plain text'


@pytest.mark.parametrize("cut", [24, 50, 79])
def test_a_long_one_that_is_cut_off(cut: int) -> None:
    assert discretion(LONG)(f"'({LONG[:cut]}' is not an int") == f"'({TOLD}' is not an int"


def test_a_short_one_only_as_a_quotation() -> None:
    assert discretion("prod")("'prod' in production of prod") == f"'{TOLD}' in production of prod"
    assert discretion("abc")("'abc'") == "'abc'"


def test_what_is_written_to_a_secret_counts_as_well() -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"a": VALUE}}
    assert SecretRedactor([secret])(VALUE) == "(value of Secret /s)"
    assert SecretRedactor([])(VALUE) == VALUE


def test_a_secret_without_its_data_keeps_everything_else() -> None:
    annotations = {well_known.LAST_APPLIED: '{"data": {"pin": "7421"}}', "team": "shop"}
    metadata = {"name": "x", "annotations": annotations}
    secret = {"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "metadata": metadata, "data": {"a": "Yg=="}}
    assert without_secret_data(secret) == {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "Opaque",
        "metadata": {"name": "x", "annotations": {"team": "shop"}},
    }
    config_map = {**secret, "kind": "ConfigMap"}
    assert without_secret_data(config_map) is config_map
