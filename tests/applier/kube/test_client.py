"""Retries, slots and credentials, against a server that misbehaves on request. Waits are recorded, not waited."""

import asyncio
import json
import socket
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from aiohttp import ClientTimeout

from applier.cluster import Object, WatchTarget
from applier.errors import Denied, Unavailable, UnknownOutcome
from applier.kube import connect
from applier.kube.client import MAX_RETRY_SECONDS, RETRY_BUDGET_SECONDS
from applier.kube.cluster import KubeCluster
from applier.kube.kubeconfig import Endpoint, Kubeconfig
from applier.sandbox.endpoints.transport import cluster_of
from applier.sandbox.server import Sandbox
from applier.sandbox.wire import Refusal, Request, Response
from renderer.identity import GroupKind, ObjectKey
from tests.support.clock import VirtualLoop
from tests.support.cluster.waiting import until
from tests.support.properties.circles import circles
from tests.support.scripted_server import RESET, Reply, refusal, scripted, write_kubeconfig

KEY = ObjectKey("", "ConfigMap", "prod", "web")
PATH = "/api/v1/namespaces/prod/configmaps/web"
OBJECT: Object = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "web", "namespace": "prod", "uid": "u1"},
}
TOO_MANY = refusal(429, reason="TooManyRequests", message="slow down")
TRY_LATER = Reply(429, TOO_MANY.body, {"Retry-After": "2"})


async def test_a_throttled_write_waits_as_long_as_the_server_asks(tmp_path: Path) -> None:
    async with scripted(tmp_path) as (server, cluster):
        server.script(PATH, TRY_LATER, TRY_LATER, Reply(body=OBJECT))
        assert await cluster.apply(OBJECT, manager="levelgate") == OBJECT
        # Two seconds each, and half of a backoff of 0.5 and 1 s.
        assert server.slept == [2.25, 2.5]
        assert cluster.requests["apply"] == 3


async def test_each_guard_is_asked_before_each_try_of_a_write(tmp_path: Path) -> None:
    """Whoever guards what is guarded already adds to it: neither check may be lost (I6)."""
    asked: list[str] = []
    async with scripted(tmp_path) as (server, cluster):
        server.script(PATH, TRY_LATER, Reply(body=OBJECT))
        twice = cluster.with_write_check(lambda: asked.append("lead")).with_write_check(lambda: asked.append("part"))
        await twice.apply(OBJECT, manager="levelgate")
        await twice.get(KEY)
        await cluster.apply(OBJECT, manager="levelgate")
    assert asked == ["lead", "part"] * 2


async def test_what_was_not_found_is_not_kept(tmp_path: Path) -> None:
    async with scripted(tmp_path) as (server, cluster):
        server.script(PATH, refusal(404, reason="NotFound", name="web", kind="configmaps"))
        assert await cluster.get(KEY) is None
        with circles() as found:
            assert await cluster.get(KEY) is None
    assert not found


@pytest.mark.parametrize("status", [429, 503])
async def test_without_advice_waits_grow_and_end(tmp_path: Path, status: int) -> None:
    async with scripted(tmp_path) as (server, cluster):
        server.script(PATH, refusal(status))
        with pytest.raises(Unavailable) as caught:
            await cluster.apply(OBJECT, manager="levelgate")
        assert caught.value.status == status
        assert server.slept == [0.375, 0.75, 1.5, 3.0, 6.0, 6.0, 6.0, 6.0]
        assert sum(server.slept) <= 30


async def test_advice_beyond_the_budget_is_handed_to_the_caller(tmp_path: Path) -> None:
    async with scripted(tmp_path) as (server, cluster):
        server.script(PATH, Reply(503, "busy", {"Retry-After": "120"}))
        with pytest.raises(Unavailable, match="status 503: busy") as caught:
            await cluster.get(KEY)
        assert caught.value.retry_after == 120
        assert server.slept == []


async def test_a_retry_after_that_is_a_date_is_ignored(tmp_path: Path) -> None:
    async with scripted(tmp_path) as (server, cluster):
        server.script(PATH, Reply(503, "", {"Retry-After": "Fri, 31 Dec 1999 23:59:59 GMT"}), Reply(body=OBJECT))
        assert await cluster.get(KEY) == OBJECT
        assert server.slept == [0.375]


@pytest.mark.parametrize("fault", [RESET, refusal(500, message="etcdserver: request timed out"), Reply(502, "<html>")])
async def test_reads_are_repeated_after_any_fault_of_the_server(tmp_path: Path, fault: Reply) -> None:
    async with scripted(tmp_path) as (server, cluster):
        server.script(PATH, fault, fault, Reply(body=OBJECT))
        assert await cluster.get(KEY) == OBJECT
        assert len(server.requests(PATH)) == 3
        # aiohttp itself repeats a read once, without a wait, when a kept-alive connection turns out to be dead.
        assert len(server.slept) == (1 if fault is RESET else 2)


@pytest.mark.parametrize(
    "fault",
    [
        RESET,
        refusal(500, message="etcdserver: request timed out"),
        refusal(504, reason="Timeout", message="request did not complete within requested timeout"),
        Reply(502, "<html>bad gateway</html>"),
    ],
)
async def test_a_write_that_may_have_happened_is_not_repeated(tmp_path: Path, fault: Reply) -> None:
    async with scripted(tmp_path) as (server, cluster):
        server.script(PATH, fault, Reply(body=OBJECT))
        with pytest.raises(UnknownOutcome, match="apply ConfigMap/prod/web"):
            await cluster.apply(OBJECT, manager="levelgate")
        assert len(server.requests(PATH)) == 1
        assert server.slept == []


@pytest.mark.parametrize("body", ["<html>sign in</html>", "[]", ""])
async def test_an_answer_that_is_no_object_proves_nothing(tmp_path: Path, body: str) -> None:
    """A proxy in between may answer 200 with a page of its own: a read has failed, a write may have happened."""
    async with scripted(tmp_path) as (server, cluster):
        server.script(PATH, Reply(body=body))
        with pytest.raises(Unavailable, match="not a JSON object"):
            await cluster.get(KEY)
        with pytest.raises(UnknownOutcome, match="not a JSON object"):
            await cluster.apply(OBJECT, manager="levelgate")
        server.script("/apis", Reply(body=body))
        with pytest.raises(Unavailable, match="discovery /apis"):
            await cluster.discover(refresh=True)


async def test_a_refused_connection_is_tried_again_then_given_up(tmp_path: Path) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    with socket.socket() as taken:  # bound but not listening: connections are refused
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        file = write_kubeconfig(tmp_path / "config", url, user={})
        cluster = await connect(kubeconfig=str(file), sleep=sleep, rng=lambda: 0.5)
        with pytest.raises(Unavailable, match=r"cannot connect: 127\.0\.0\.1:\d+: Connection refused$"):
            await cluster.discover()
        await cluster.close()
    assert slept == [0.375, 0.75, 1.5, 3.0, 6.0, 6.0, 6.0, 6.0]


async def test_a_read_that_nobody_answers_is_not_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with scripted(tmp_path) as (server, cluster):
        await cluster.discover()
        monkeypatch.setattr(cluster._client.transport, "_read_timeout", ClientTimeout(sock_read=0.05))
        server.gate = asyncio.Event()
        with pytest.raises(Unavailable, match="no answer within"):
            await cluster.get(KEY)
        server.gate.set()


async def test_a_person_waits_less_for_a_server_that_is_not_there(tmp_path: Path) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        file = write_kubeconfig(tmp_path / "config", f"http://127.0.0.1:{taken.getsockname()[1]}", user={})
        cluster = await connect(kubeconfig=str(file), sleep=sleep, rng=lambda: 0.5, unreachable_seconds=2.0)
        with pytest.raises(Unavailable, match="cannot connect"):
            await cluster.get(KEY)
        await cluster.close()
    assert slept == [0.375, 0.75]


async def test_credentials_are_read_again_once_when_refused(tmp_path: Path) -> None:
    async with scripted(tmp_path) as (server, cluster):
        await cluster.discover()
        file = tmp_path / "config"
        document = json.loads(file.read_text())
        document["users"][0]["user"]["token"] = "second"
        file.write_text(json.dumps(document))
        server.script(PATH, refusal(401, reason="Unauthorized", message="Unauthorized"), Reply(body=OBJECT))
        assert await cluster.get(KEY) == OBJECT
        assert [seen.headers["Authorization"] for seen in server.requests(PATH)] == ["Bearer first", "Bearer second"]


async def test_requests_that_are_refused_together_renew_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[Endpoint] = []
    load = Kubeconfig.load

    async def counted(source: Kubeconfig) -> Endpoint:
        loaded.append(await load(source))
        return loaded[-1]

    monkeypatch.setattr(Kubeconfig, "load", counted)
    async with scripted(tmp_path) as (server, cluster):
        await cluster.discover()
        server.script(PATH, *[refusal(401)] * 10, Reply(body=OBJECT))
        server.gate = asyncio.Event()
        gets = [asyncio.ensure_future(cluster.get(KEY)) for _ in range(10)]
        await until(lambda: server.in_flight >= 10)
        server.gate.set()
        assert await asyncio.gather(*gets) == [OBJECT] * 10
        assert len(loaded) == 2


@pytest.mark.parametrize("code", [429, 500])
async def test_a_conversion_that_fails_is_not_asked_for_again(tmp_path: Path, code: int) -> None:
    """Fault row "conversion failing", I9: whoever else is read in the same pass does not wait for it."""
    message = (
        'storage is (re)initializing: conversion webhook for g.test/v1, Kind=Widget failed: Post "https://x": refused'
    )
    async with scripted(tmp_path) as (server, cluster):
        server.script(PATH, refusal(code, message=message), Reply(body=OBJECT))
        with pytest.raises(Unavailable, match="conversion webhook"):
            await cluster.get(KEY)
        assert len(server.requests(PATH)) == 1


async def test_credentials_that_stay_refused_are_an_error(tmp_path: Path) -> None:
    async with scripted(tmp_path) as (server, cluster):
        server.script(PATH, refusal(401, reason="Unauthorized", message="Unauthorized"))
        with pytest.raises(Denied) as caught:
            await cluster.get(KEY)
        assert caught.value.status == 401
        assert len(server.requests(PATH)) == 2


async def test_requests_in_flight_are_bounded(tmp_path: Path) -> None:
    async with scripted(tmp_path, concurrency=8) as (server, cluster):
        await cluster.discover()
        server.script(PATH, Reply(body=OBJECT))
        server.script("/api/v1/configmaps", Reply(body={"items": []}))
        server.gate = asyncio.Event()
        gets = [asyncio.ensure_future(cluster.get(KEY)) for _ in range(30)]
        lists = [asyncio.ensure_future(cluster.list(GroupKind("", "ConfigMap"))) for _ in range(10)]
        await until(lambda: server.in_flight >= 10)
        server.gate.set()
        await asyncio.gather(*gets, *lists)
        assert server.most_in_flight == 8 + 2  # lists have two slots of their own
        assert len(server.seen) == 2 + 30 + 10


async def test_the_request_says_everything_that_server_side_apply_wants(tmp_path: Path) -> None:
    async with scripted(tmp_path) as (server, cluster):
        server.script(PATH + "/status", Reply(body=OBJECT))
        await cluster.apply(OBJECT, manager="levelgate-status", force=True, dry_run=True, subresource="status")
        (seen,) = server.requests(PATH + "/status")
        assert (seen.method, seen.headers["Content-Type"]) == ("PATCH", "application/apply-patch+yaml")
        assert seen.query == {
            "fieldManager": "levelgate-status",
            "force": "true",
            "fieldValidation": "Strict",
            "dryRun": "All",
        }
        assert json.loads(seen.body) == OBJECT


async def test_the_request_of_a_delete_proves_which_object_is_meant(tmp_path: Path) -> None:
    async with scripted(tmp_path) as (server, cluster):
        server.script(PATH, Reply(body={"kind": "Status"}))
        await cluster.delete(KEY, uid="u1", resource_version="7", propagation="Foreground")
        (seen,) = server.requests(PATH)
        options = json.loads(seen.body)
        assert options["preconditions"] == {"uid": "u1", "resourceVersion": "7"}
        assert options["propagationPolicy"] == "Foreground"


async def test_who_asks_in_the_name_of_somebody_takes_no_other_name_along(tmp_path: Path) -> None:
    """Threat 12: neither the user that the kubeconfig would ask in the name of, nor its uid."""
    user = {"token": "first", "as": "robot", "as-uid": "7"}
    async with scripted(tmp_path, user=user) as (server, cluster):
        server.script(PATH, Reply(body=OBJECT), Reply(body=OBJECT))
        await cluster.apply(OBJECT, manager="levelgate")
        await cluster.with_user("system:serviceaccount:shop:s").apply(OBJECT, manager="levelgate")
        own, other = (
            {name: value for name, value in seen.headers.items() if name.startswith("Impersonate-")}
            for seen in server.requests(PATH)
        )
        assert own == {"Impersonate-User": "robot", "Impersonate-Uid": "7"}
        assert other == {"Impersonate-User": "system:serviceaccount:shop:s"}


def _run(story: Coroutine[None, None, None]) -> None:
    """In virtual time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(story)


def _now() -> float:
    return asyncio.get_running_loop().time()


@dataclass
class Shop:
    """A server behind which some requests take long (by name), or are refused with 429, in virtual time; `seen` is when each came, `given_up` when
    one was not tried again.
    """

    slow: Mapping[str, float] = field(default_factory=dict)
    busy: Callable[[str], bool] = field(default=lambda _: False)
    seen: dict[str, list[float]] = field(default_factory=dict)
    given_up: list[float] = field(default_factory=list)

    def serve(self, names: Sequence[str], *, concurrency: int) -> dict[str, float]:
        """Ask for all of these at once; when each was answered."""
        done = dict[str, float]()

        async def ask(cluster: KubeCluster, name: str) -> None:
            try:
                await cluster.apply({**OBJECT, "metadata": {**OBJECT["metadata"], "name": name}}, manager="levelgate")
            except Unavailable:
                self.given_up.append(_now())
            else:
                done[name] = _now()

        async def story() -> None:
            sandbox = Sandbox()

            async def door(request: Request) -> Response:
                name = request.target.partition("?")[0].rpartition("/")[2]
                if request.method == "PATCH":
                    self.seen.setdefault(name, []).append(_now())
                    await asyncio.sleep(self.slow.get(name, 0.01))
                    if self.busy(name):
                        return Refusal(429, "TooManyRequests", "slow down", details={}).response
                    return Response(200, json.dumps(OBJECT).encode())
                return await sandbox.answer(request)

            cluster = cluster_of(door, concurrency=concurrency, rng=lambda: 0.5)
            await cluster.discover()
            await asyncio.gather(*(ask(cluster, name) for name in names))

        _run(story())
        return done


def test_requests_that_take_long_give_their_slots_away() -> None:
    """I9: as long as others are answered; of four slots three are taken by what hangs."""
    hanging = [f"hangs{number}" for number in range(6)]
    done = Shop(slow=dict.fromkeys(hanging, 40.0)).serve(
        [*hanging[:3], *(f"one{number}" for number in range(400)), *hanging[3:]], concurrency=4
    )
    assert max(when for name, when in done.items() if name not in hanging) < 2.1


def test_watches_that_do_not_begin_take_no_places_of_lists() -> None:
    """I9: however many kinds do not answer."""
    sandbox = Sandbox()

    async def door(request: Request) -> Response:
        await asyncio.sleep(1e6 if request.target.startswith("/api/v1/secrets") else 0.01)
        return await sandbox.answer(request)

    async def begin(cluster: KubeCluster) -> None:
        async with cluster.watch(WatchTarget(GroupKind("", "Secret"))):
            raise AssertionError("it has begun")

    async def story() -> None:
        cluster = cluster_of(door, concurrency=4)
        watches = [asyncio.ensure_future(begin(cluster)) for _ in range(40)]
        for _ in range(100):
            await cluster.list(GroupKind("", "ConfigMap"))
        assert _now() < 2
        for one in watches:
            one.cancel()
        await asyncio.gather(*watches, return_exceptions=True)

    _run(story())


def test_no_more_are_sent_to_a_server_that_answers_nobody() -> None:
    shop = Shop(slow={f"one{number}": 3.0 for number in range(8)})
    shop.serve([f"one{number}" for number in range(8)], concurrency=4)
    assert sorted(when for times in shop.seen.values() for when in times) == [0.0] * 4 + [3.0] * 4


def test_an_object_that_is_put_off_keeps_nobody_from_a_slot() -> None:
    """I9: a refusal of one object says nothing of the others."""
    shop = Shop(busy=lambda name: name.startswith("busy"))
    done = shop.serve(
        [*(f"busy{number}" for number in range(4)), *(f"one{number}" for number in range(40))], concurrency=4
    )
    assert len(done) == 40
    assert max(done.values()) < 0.2


def test_a_server_that_refuses_all_is_asked_less() -> None:
    """I11: with four slots no more than four wait for a try at any time, once as many were refused one after the other."""
    shop = Shop(busy=lambda _: True)
    assert shop.serve([f"one{number}" for number in range(100)], concurrency=4) == {}
    sent = sorted(when for times in shop.seen.values() for when in times)
    assert sum(when < 10 for when in sent) < 60


def test_a_server_that_refuses_all_is_given_up_as_soon_for_many_as_for_one() -> None:
    """Each waits for its next try until all others had theirs, which may take as long as there are requests; and nobody waits for a try that it will
    not make.
    """
    shop = Shop(busy=lambda _: True)
    shop.serve([f"one{number}" for number in range(400)], concurrency=4)
    assert RETRY_BUDGET_SECONDS <= min(shop.given_up) <= max(shop.given_up) <= RETRY_BUDGET_SECONDS + MAX_RETRY_SECONDS


def test_time_in_which_nobody_asks_counts_for_no_server_that_is_down() -> None:
    sandbox, tries = Sandbox(), Counter[str]()

    async def door(request: Request) -> Response:
        name = request.target.partition("?")[0].rpartition("/")[2]
        tries[name] += request.method == "PATCH"
        if request.method == "PATCH" and (name == "first" or tries[name] == 1):
            return Refusal(429, "TooManyRequests", "slow down", details={}).response
        return await sandbox.answer(request)

    async def story() -> None:
        cluster = cluster_of(door)
        for name in ("first", "second"):
            with pytest.raises(Unavailable) if name == "first" else nullcontext():
                await cluster.apply({**OBJECT, "metadata": {"name": name, "namespace": "default"}}, manager="levelgate")
            await asyncio.sleep(1000)

    _run(story())
    assert tries["second"] == 2


async def test_the_time_of_the_server_is_that_of_its_last_answer(tmp_path: Path) -> None:
    """RFC 9110 6.6.1; from then on it goes on as time does here."""
    async with scripted(tmp_path) as (server, cluster):
        unknown = cluster.server_time
        assert unknown is None
        server.script("/version", Reply(headers={"Date": "Mon, 16 Mar 2026 12:00:00 GMT"}))
        await cluster.version()
        first = cluster.server_time
        assert first is not None
        assert timedelta() <= first - datetime(2026, 3, 16, 12, tzinfo=UTC) < timedelta(minutes=1)
        server.script("/version", Reply(headers={"Date": "some day"}))
        await cluster.version()
        assert cluster.server_time is None


async def test_a_probe_is_one_request_and_any_answer_will_do(tmp_path: Path) -> None:
    async with scripted(tmp_path) as (server, cluster):
        server.script("/readyz", Reply(500, "not ready"), RESET)
        assert await cluster.probe() == 500
        with pytest.raises(Unavailable, match="readyz"):
            await cluster.probe()
        assert cluster.requests["probe"] == 2
        assert server.slept == []
