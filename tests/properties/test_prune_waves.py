"""Waves of deletion over members of many generations, each with the dependencies that it was last written with (I4, S0-11 to S0-16)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from applier.applyset.member import Member
from applier.cluster import Object
from renderer import well_known
from renderer.identity import key_hash
from tests.support.properties.examples import examples, once
from tests.support.properties.waves import Waves, judge, key, member

NAMES = "abcdefg"
Spec = tuple[tuple[str, ...], int, bool]
"""Recorded dependencies, recorded level, whether there is a record at all."""


@st.composite
def generations(draw: st.DrawFn, *, whole: bool = False) -> dict[str, Spec]:
    """Members as commits and crashes leave them: each was written by one of several graphs, some have no record at all. `whole`: by one graph."""
    graphs = []
    for _ in range(1 if whole else draw(st.integers(1, 3))):
        order = draw(st.permutations(NAMES))
        reads = {
            name: draw(st.lists(st.sampled_from(order[:index]), unique=True, max_size=2)) if index else []
            for index, name in enumerate(order)
        }
        levels: dict[str, int] = {}
        for name in order:
            levels[name] = 1 + max((levels[other] for other in reads[name]), default=-1)
        graphs.append((reads, levels))
    live = {}
    for name in draw(st.lists(st.sampled_from(NAMES), unique=True, min_size=1)):
        reads, levels = draw(st.sampled_from(graphs))
        live[name] = (tuple(reads[name]), levels[name], whole or draw(st.integers(0, 6)) > 0)
    return live


def made(specs: dict[str, Spec]) -> dict[str, Object]:
    return {
        name: member(name, *uses, level=level, recorded=recorded) for name, (uses, level, recorded) in specs.items()
    }


def needs(live: dict[str, Object]) -> dict[str, set[str]]:
    by_hash = {key_hash(key(name)): name for name in live}
    return {
        name: {by_hash[dep] for dep in Member.from_object(obj).dependencies if dep in by_hash} - {name}
        for name, obj in live.items()
    }


def reaches(uses: dict[str, set[str]], start: str) -> set[str]:
    found: set[str] = set()
    pending = list(uses[start])
    while pending:
        name = pending.pop()
        if name not in found:
            found.add(name)
            pending += uses.get(name, ())
    return found


@examples(150)
@given(specs=generations(), data=st.data())
def test_nothing_goes_that_a_live_member_needs_and_nothing_is_left(specs: dict[str, Spec], data: st.DataObject) -> None:
    """I4, S0-13: an orphan goes once nobody needs it; only circles of mixed generations are cut; in the end no free orphan is left."""
    live = made(specs)
    desired = frozenset(data.draw(st.lists(st.sampled_from(sorted(live)), unique=True, max_size=2)))
    waves = Waves(dict(live), desired)
    for _ in range(60):
        before = needs(waves.live)
        allowed = [name for name, orphan in judge(waves.live.values(), desired=desired).items() if orphan.allowed]
        if not allowed:
            break
        for name in allowed:
            users = {user for user, uses in before.items() if name in uses}
            assert users <= reaches(before, name), f"{name} goes although {users} need it"
        crash = data.draw(st.integers(0, len(allowed)))  # the process dies after any prefix of a wave
        for name in allowed[: crash or None]:
            waves.remove(name)
    left = needs(waves.live)
    held = desired.union(*(reaches(left, name) for name in desired if name in left))
    last = without_records(live) if held & (live.keys() - desired - without_records(live)) else set()
    assert set(waves.live) <= held | last  # members without a record go after all others, those that are held too
    assert held & live.keys() <= set(waves.live)


@examples(100)
@given(specs=generations(whole=True), stuck=st.sampled_from(NAMES))
@once
def test_a_stuck_member_holds_only_what_it_needs(specs: dict[str, Spec], stuck: str) -> None:
    """S0-16, rule 8: what hangs on a finalizer stays, and all that it needs; the rest goes."""
    live = made(specs)
    waves = Waves(dict(live), stuck=frozenset({stuck}))
    waves.run()
    if stuck in live:
        assert set(waves.live) == {stuck} | reaches(needs(live), stuck)
    else:
        assert not waves.live


@examples(100)
@given(specs=generations(whole=True), kept=st.sampled_from(NAMES))
@once
def test_a_kept_member_holds_only_what_it_needs(specs: dict[str, Spec], kept: str) -> None:
    """`levelgate.dev/prune: disabled` on one member: the others go."""
    live = made(specs)
    if kept in live:
        live[kept]["metadata"]["annotations"][well_known.PRUNE] = "disabled"
    waves = Waves(dict(live))
    waves.run()
    assert set(waves.live) == ({kept} | reaches(needs(live), kept) if kept in live else set())


def without_records(live: dict[str, Object]) -> set[str]:
    """These go last, after what is stuck as well (S0-13)."""
    return {name for name, obj in live.items() if not Member.from_object(obj).has_record}
