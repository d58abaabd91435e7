"""What one may do, and who one is: the real server is asked by an administrator, the sandbox allows everybody everything."""

from __future__ import annotations

import pytest

from tests.support.cluster.http_api import Api

PATH = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
MAY_PATCH = {"resourceAttributes": {"verb": "patch", "group": "apps", "resource": "deployments"}}


def test_whoever_may_do_everything_is_told_so(api: Api) -> None:
    answer = api.post(PATH, {"spec": MAY_PATCH})
    assert answer.code == 201
    assert (answer.body["kind"], answer.body["status"]["allowed"]) == ("SelfSubjectAccessReview", True)
    assert answer.body["spec"]["resourceAttributes"]["resource"] == "deployments"


@pytest.mark.parametrize("spec", [{}, {**MAY_PATCH, "nonResourceAttributes": {"verb": "get", "path": "/"}}])
def test_a_question_about_nothing_or_two_things_is_refused(api: Api, spec: dict[str, object]) -> None:
    assert api.post(PATH, {"spec": spec}).refusal == (422, "Invalid")


def test_one_is_told_who_one_is(api: Api) -> None:
    answer = api.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", {})
    assert (answer.code, answer.body["kind"]) == (201, "SelfSubjectReview")
    assert answer.body["status"]["userInfo"]["username"]
