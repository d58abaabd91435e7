"""Common parts of the commands with which people make requests.

A command finds the object, makes the request and writes the request. Then the command prints the resulting state, and
how to undo the request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from functools import wraps
from typing import Any

import click

from applier.cluster import CLI_MANAGER, Object
from applier.kube.cluster import KubeCluster
from applier.state.observed import annotation, label
from gitops.cli import describe_exit_codes
from gitops.cli.options import ClusterChoice, Duration, member_options, parse_ref
from gitops.cli.terminal import echo
from gitops.clock import SystemClock
from gitops.records.installation import INSTALLATION, configured_sources
from gitops.records.references import SOURCE, Ref, find_key, suggest_name
from gitops.records.requests import PersonRequest, RequestError, RequestSubject
from gitops.records.source_record import read_names_by_set_id, read_source_names
from gitops.text import format_local_time, title
from gitops.timestamps import to_utc
from renderer import well_known
from renderer.frozen import dataclass
from renderer.identity import ObjectKey
from renderer.kinds import CRD
from renderer.phrasing import suggestion_or_names

INSTANCE = ""
"""Value of `Ref.own_type` for a reference to an object of a kind that the cluster serves, such as an instance."""

PLAIN_OBJECT = "object"
"""Value that a command adds to its accepted types if the command also accepts plain objects."""

REQUEST_EXIT_CODES = describe_exit_codes("0 written or printed", "1 rejected, or the cluster does not answer")
"""Last paragraph of the help of a command that makes a request."""
_ANONYMOUS_USER = "system:anonymous"

AfterWrite = Callable[[KubeCluster, Sequence[PersonRequest]], Awaitable[int]]
"""Step that runs after a command has written all requests. The step returns the exit code."""


class Moment(click.ParamType[datetime]):
    """Type of an option: a duration from now such as `4h`, or a time such as `2026-11-20T18:00`.

    A time without a zone counts as a time in the terminal's zone.
    """

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        if isinstance(value, datetime):
            return value
        now = SystemClock().now()
        try:
            parsed_time = to_utc(datetime.fromisoformat(value))
        except (ValueError, OverflowError):
            try:
                parsed_time = now + Duration().convert(value, param, ctx)
            except click.BadParameter:
                self.fail(
                    f"{value!r} is not a time; write for example 4h, 2026-11-20T18:00 or 2026-11-20T17:00:00Z",
                    param,
                    ctx,
                )
        if parsed_time <= now:
            self.fail(f"{value!r} is in the past; name a later time", param, ctx)
        return parsed_time


reason_option = click.option("--reason", metavar="TEXT", required=True, help="Reason, which others see.")
optional_reason_option = click.option("--reason", metavar="TEXT", default="", help="Reason, which others see.")
until_option = click.option("--until", metavar="TIME", type=Moment(), help="End, such as 4h or 2026-11-20T18:00.")
everything_option = click.option(
    "--all", "everything", is_flag=True, help="Everything that Levelgate writes in this cluster."
)


@dataclass(frozen=True, slots=True)
class RequestCommand:
    """Command line with a request: the REF, and whether to write the request or to print it for kubectl or Git."""

    words: tuple[str, ...]
    namespace: str | None
    dry_run: bool
    git: bool
    choice: ClusterChoice

    def __call__(
        self, make_request: Callable[[RequestSubject], PersonRequest], *accepted: str, everything: bool = False
    ) -> int:
        """Send the request on REF and return the exit code. With `everything`, send it on the whole installation.

        Args:
            accepted: values of `Ref.own_type` that the command supports.

        Raises: UsageError, GitopsError, ClusterError.
        """
        if everything == bool(self.words):
            raise click.UsageError(
                "--all and REF cannot be combined; leave one out"
                if everything
                else f"give REF: {_format_accepted(accepted)}"
            )
        refs = [None if everything else self._parse_ref(accepted)]
        return asyncio.run(
            self._send_requests(make_request, refs, self._verb(), takes_plain_objects=PLAIN_OBJECT in accepted)
        )

    def to_sources(
        self,
        make_request: Callable[[RequestSubject], PersonRequest],
        *accepted: str,
        after_write: AfterWrite | None,
    ) -> int:
        """Send the request on REF and return the exit code. Without REF, send a request on every source.

        When all requests are written, call `after_write`.

        Raises: UsageError, GitopsError, ClusterError.
        """
        refs = [self._parse_ref(accepted)] if self.words else ()
        return asyncio.run(
            self._send_requests(make_request, refs, self._verb(), after_write, takes_plain_objects=False)
        )

    def _parse_ref(self, accepted: tuple[str, ...]) -> Ref:
        ref = parse_ref(self.words)
        if ref.node:
            raise click.UsageError(f"{ref} is a node, but requests are for whole instances; name {ref.type}/{ref.name}")
        if ref.own_type not in accepted:
            raise click.UsageError(f"{ref} does not support this request; name {_format_accepted(accepted)}")
        return ref

    def _verb(self) -> str:
        """Return the name of the command that runs."""
        return click.get_current_context().info_name or ""

    async def _send_requests(
        self,
        make_request: Callable[[RequestSubject], PersonRequest],
        refs: Sequence[Ref | None],
        verb: str,
        after_write: AfterWrite | None = None,
        *,
        takes_plain_objects: bool,
    ) -> int:
        async with self.choice.connect() as cluster:
            refs = refs or [Ref(SOURCE, name) for name in await read_source_names(cluster)]
            if not refs:
                raise RequestError(f"cluster {cluster.name} has no source; run levelgate run --source NAME=URL")
            namespace = self.namespace or cluster.namespace
            person = await self._find_person(cluster)
            finder = _SubjectFinder(cluster, person, namespace, verb, self.git, takes_plain_objects)
            requests = [make_request(await finder.find(ref)) for ref in refs]
            is_preview = self.dry_run or self.git
            header = f"Cluster {cluster.name}, {format_local_time(requests[0].subject.now)}"
            echo(f"# {header}" if is_preview else header)
            for request in requests:
                for line in await self._write_or_format(cluster, request):
                    echo(line)
            return await after_write(cluster, requests) if after_write and not is_preview else 0

    async def _write_or_format(self, cluster: KubeCluster, request: PersonRequest) -> list[str]:
        """Write the request, or format the request for a preview, and return the lines to print."""
        if self.dry_run:
            return [request.format_kubectl_command(await cluster.discover(), await self._kubectl_options())]
        if self.git:
            return [request.format_git_change()]
        if await cluster.merge(request.subject.key, request.patch, manager=CLI_MANAGER) is None:
            raise RequestError(f"{request.subject} no longer exists; check the name")
        annotation_text = ", ".join(
            f"{name}={value}" if value is not None else f"{name}-" for name, value in request.annotations.items()
        )
        return [
            request.outcome,
            f"Written: {annotation_text}",
            *([f"Undo: {self.choice.format_command(request.undo)}"] if request.undo else []),
        ]

    async def _find_person(self, cluster: KubeCluster) -> str:
        """Return the person who makes the request.

        The hub's credentials open every cluster of its fleet. In a member cluster, every person would have the name of
        the hub's account. So the hub reports the person.

        Raises: ClusterError.
        """
        if self.choice.member is None:
            return await find_person(cluster)
        async with self.choice.connect_hub() as hub:
            return await find_person(hub)

    async def _kubectl_options(self) -> list[str]:
        """Return the options with which kubectl reaches the same cluster."""
        kubeconfig = self.choice.kubeconfig
        if self.choice.sandbox:
            from gitops.sandbox import find_kubeconfig

            kubeconfig = str(await find_kubeconfig())
        options = {"--kubeconfig": kubeconfig, "--context": self.choice.context}
        return [argument for option, value in options.items() if value for argument in (option, value)]


async def find_person(cluster: KubeCluster) -> str:
    """Return the name of this process's user at the API server, or an empty string for an anonymous user.

    Raises: ClusterError.
    """
    user = await cluster.user()
    return "" if user == _ANONYMOUS_USER else user


def _format_accepted(accepted: Sequence[str]) -> str:
    names = {INSTANCE: "an instance (webapp/shop)", PLAIN_OBJECT: "a plain object (configmap/settings)"}
    return ", ".join(names.get(word, f"{word}/NAME") for word in accepted)


def request_options(command: Callable[..., int]) -> Callable[..., int]:
    """Add REF and the options of a request. The command receives them as one parameter, `send_request`."""

    @wraps(command)
    def with_request(
        *, ref: tuple[str, ...], namespace: str | None, dry_run: bool, git: bool, choice: ClusterChoice, **others: Any
    ) -> int:
        if dry_run and git:
            raise click.UsageError("--dry-run and --git cannot be combined; choose one")
        if dry_run and choice.member:
            raise click.UsageError("--dry-run prints a kubectl command, and kubectl has no --cluster; leave one out")
        return command(send_request=RequestCommand(ref, namespace, dry_run, git, choice), **others)

    wrapped = member_options(with_request)
    for option in (
        click.option("--git", is_flag=True, help="Print the lines to commit instead, and write nothing."),
        click.option("--dry-run", is_flag=True, help="Print the equivalent kubectl command, and write nothing."),
        click.option("-n", "--namespace", metavar="NS", help="Namespace of the object.  [default: the context's]"),
        click.argument("ref", nargs=-1),
    ):
        wrapped = option(wrapped)
    return wrapped


@dataclass(frozen=True, slots=True)
class _SubjectFinder:
    """Finder of the subject of a request, among the objects that accept the request."""

    cluster: KubeCluster
    person: str
    namespace: str
    verb: str
    """Name of the command, for messages."""
    may_be_missing: bool
    """True if the object need not exist yet, because the person commits the request to Git."""
    takes_plain_objects: bool

    async def find(self, ref: Ref | None) -> RequestSubject:
        """Return the subject that `ref` names, or the installation if `ref` is None.

        Raises: RequestError if the subject does not exist or does not accept the request, RefError, ClusterError.
        """
        cluster = self.cluster
        key = INSTALLATION if ref is None else await find_key(cluster, ref, self.namespace)
        is_object = ref is not None and not ref.own_type
        live = await cluster.get(key)
        if live is None and is_object and self.may_be_missing:
            live = {"metadata": {}}
        if live is None and ref and ref.own_type == SOURCE:
            raise RequestError(await _describe_unread_source(cluster, ref))
        if live is None:
            place = f" in namespace {key.namespace}" if is_object and key.namespace else ""
            git_hint = "; for an object that is only in Git, print the lines to commit with --git" if is_object else ""
            hint = (
                (await suggest_name(cluster, ref, key) or git_hint) if ref else "; start Levelgate in the cluster first"
            )
            raise RequestError(f"{ref or title(key)} does not exist{place} in cluster {cluster.name}{hint}")
        is_instance = is_object and await _is_instance(cluster, key)
        if is_object and not is_instance:
            await self._expect_plain_object(key, live)
        return RequestSubject(key, live, ref, self.person, SystemClock().now(), is_instance)

    async def _expect_plain_object(self, key: ObjectKey, live: Object) -> None:
        """Check that the object is a plain object of a source, and that the command accepts plain objects.

        Raises: RequestError.
        """
        if owner := annotation(live, well_known.INSTANCE):
            kind, _, qualified_name = owner.partition("/")
            namespace, _, name = qualified_name.rpartition("/")
            place = f" -n {namespace}" if namespace else ""
            raise RequestError(
                f"{key} belongs to instance {owner}, whose requests it follows; "
                f"name the instance: levelgate {self.verb} {kind.lower()}/{name}{place}"
            )
        if not self.takes_plain_objects:
            raise RequestError(f"{key} is not an instance of a definition; name an instance")
        if key.group_kind == CRD and (definition := annotation(live, well_known.DEFINITION)):
            raise RequestError(f"{key} comes from a definition; name the definition, rgd/{definition}, or its source")
        if not live["metadata"]:
            return  # The object does not exist yet, because it is committed to Git together with its request.
        sources = await read_names_by_set_id(self.cluster)
        if label(live, well_known.PART_OF) not in sources:
            raise RequestError(
                f"{key} is not in a source, so Levelgate never writes it and accepts no request on it; "
                f"list the objects of a source with `levelgate tree source/NAME`"
            )


async def _describe_unread_source(cluster: KubeCluster, ref: Ref) -> str:
    """Return the reason why a source has no record, and advice for the person."""
    followed_sources = configured_sources(await cluster.get(INSTALLATION)) or frozenset()
    if ref.name in followed_sources:
        return (
            f"the daemon has not read {ref} yet, so {ref} accepts no request in cluster {cluster.name}; "
            f"try again once `levelgate status` shows a commit"
        )
    hint = suggestion_or_names(ref.name, followed_sources.union(await read_source_names(cluster)))
    return f"no daemon follows {ref} in cluster {cluster.name}{hint or f'; run levelgate run --source {ref.name}=URL'}"


async def _is_instance(cluster: KubeCluster, key: ObjectKey) -> bool:
    """Return whether a definition defines the kind of the object `key`. Raises: ClusterError."""
    resource = (await cluster.discover()).resources[key.group_kind]
    crd = await cluster.get(ObjectKey(*CRD, "", f"{resource.plural}.{resource.group}"), metadata_only=True)
    return crd is not None and bool(annotation(crd, well_known.DEFINITION))
