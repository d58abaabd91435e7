"""Records of rollouts as inputs: stored states, requests of people, and failed writes.

The shell reads all records of rollouts together, and sets the state and the requests of a record in one transaction. If
a rollout has no record, the shell sets both to None and to an empty tuple.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from applier.causes import Cause
from gitops.queries import Contributions, Input, QueryGraph, QueryIndex, query
from gitops.rollouts.requests import RolloutRequest
from gitops.rollouts.state import RolloutState, is_same_state

rollout_state: Final[Input[[str], RolloutState | None]] = Input(
    "rollout_state", initial=None, starts_unread=True, same=is_same_state
)
"""State in the record of a rollout, or None for a rollout without a record."""

rollout_requests: Final[Input[[str], tuple[RolloutRequest, ...]]] = Input(
    "rollout_requests", initial=(), starts_unread=True
)
"""Requests on the record of a rollout that no stored state has answered yet, in the order of execution."""

unrecorded_cause: Final[Input[[str], Cause | None]] = Input("unrecorded_cause", initial=None, starts_unread=False)
"""Cause because of which no decision of a rollout can be stored, or None. Such a rollout decides nothing."""


@query
def _state_entries(graph: QueryGraph, name: str) -> Mapping[str | None, None]:
    state = rollout_state(graph, name)
    return {None: None, state.of: None} if state else {}


_recorded: Final[QueryIndex[str, str | None, None, Contributions[str, None]]] = QueryIndex(
    "_recorded_rollouts",
    order=1,
    members=rollout_state,
    contributions=_state_entries,
    new_entry=Contributions[str, None],
    spreads_unread=True,
)
"""Names of the rollouts with a record, by `RolloutState.of`, and all of them under None."""


@query(same=is_same_state)
def remembered_state(graph: QueryGraph, name: str, of: str) -> RolloutState:
    """Return what the records tell about a rollout.

    A rollout belongs to the kind of a definition. So a definition with a new name keeps the state under its old name,
    and a state of another kind under the same name does not count.

    Args:
        of: identity of the rollout; see `RolloutState.of`.
    """
    state = rollout_state(graph, name)
    if state is None or state.of not in {"", of}:
        former = min(_recorded(graph, of), default=None)
        state = rollout_state(graph, former) if former else None
    return state or RolloutState()


@query
def _request_entries(graph: QueryGraph, name: str) -> Mapping[None, None]:
    return {None: None} if rollout_requests(graph, name) else {}


_requested: Final[QueryIndex[str, None, None, Contributions[str, None]]] = QueryIndex(
    "_requested",
    order=1,
    members=rollout_requests,
    contributions=_request_entries,
    new_entry=Contributions[str, None],
    spreads_unread=False,
)
"""Names of the rollouts with requests."""


@query
def known_rollouts(graph: QueryGraph) -> frozenset[str]:
    """Return the names of the rollouts with a record or with requests."""
    return frozenset(_recorded(graph, None)) | frozenset(_requested(graph, None))
