"""Readers go before what they read, where both go; circles are no exception that lasts."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from applier.applyset.member import Member
from applier.plan.prune_readers import MemberSet, ReadOrder, find_leaving
from renderer.identity import ObjectKey, key_hash

Reads = dict[str, tuple[str, ...]]


def key(name: str) -> ObjectKey:
    """Names in capitals are instances."""
    return (
        ObjectKey("test", "Instance", "default", name)
        if name.isupper()
        else ObjectKey("", "ConfigMap", "default", name)
    )


def member(name: str, *reads: str, uses: tuple[str, ...] = (), terminating: bool = False) -> Member:
    return Member(
        key=key(name),
        uid=name,
        resource_version="1",
        level=0,
        dependencies=frozenset(key_hash(key(other)) for other in uses),
        dropped_dependencies=frozenset(),
        reads=frozenset(key_hash(key(other)) for other in reads),
        node_id=name,
        source_file="",
        has_record=True,
        is_terminating=terminating,
    )


def order_of(live: dict[str, Member], children: dict[str, str], kept: frozenset[str] = frozenset()) -> ReadOrder:
    """The order of these members; `children` names the instance of each that is in one."""
    sets = [MemberSet(None, False, tuple(one for name, one in live.items() if name not in children), ())]
    for instance in sorted(set(children.values())):
        own = {name: one for name, one in live.items() if children.get(name) == instance}
        leaving = tuple(one for name, one in own.items() if name not in kept)
        sets.append(MemberSet(key(instance), True, leaving, tuple(own[name] for name in own.keys() & kept)))
    recorded: dict[str, tuple[Member, ...]] = {}
    for one in live.values():
        for read in one.reads:
            recorded[read] = (*recorded.get(read, ()), one)
    return ReadOrder(find_leaving(sets), recorded, {})


def first(order: ReadOrder, name: str) -> set[str]:
    return {one.key.name for one in order.going_first.get(key_hash(key(name)), ())}


def test_what_is_read_and_its_instance_wait_for_the_reader_and_its_instance() -> None:
    children = {"x": "B", "own": "B", "c": "A", "other": "A"}
    live = {name: member(name) for name in ("A", "B", "x", "own", "other")} | {"c": member("c", "x")}
    order = order_of(live, children)
    assert first(order, "x") == {"c", "A"}
    assert first(order, "B") == {"c", "A"}
    assert first(order, "own") == first(order, "A") == set()


def test_instances_that_read_each_others_objects_wait_for_the_readers_alone() -> None:
    children = {"x": "B", "d": "B", "y": "A", "c": "A"}
    live = {"A": member("A"), "B": member("B"), "x": member("x"), "y": member("y")}
    order = order_of(live | {"c": member("c", "x"), "d": member("d", "y")}, children)
    assert (first(order, "x"), first(order, "y")) == ({"c"}, {"d"})
    assert first(order, "A") == first(order, "B") == set()


def test_readers_in_a_circle_wait_for_nobody_in_it() -> None:
    live = {"p": member("p", "q"), "q": member("q", "p"), "r": member("r", "p")}
    order = order_of(live, {})
    assert first(order, "p") == {"r"}
    assert first(order, "q") == set()


def test_a_reader_that_is_kept_holds_nothing_and_neither_does_its_instance() -> None:
    """Nor what it depends on, which stays with it."""
    children = {"c": "A", "k": "A", "x": "B"}
    live = {"A": member("A"), "B": member("B"), "x": member("x"), "c": member("c", "x")}
    order = order_of(live | {"k": member("k", uses=("c",))}, children, frozenset({"k"}))
    assert first(order, "x") == set()
    assert order.staying_readers(key("x")) == (key("c"),)


def test_what_stays_beside_a_reader_does_not_hold_what_that_reads() -> None:
    children = {"c": "A", "k": "A"}
    live = {"A": member("A"), "k": member("k"), "c": member("c", "p"), "p": member("p")}
    assert first(order_of(live, children, frozenset({"k"})), "p") == {"c"}


NAMES = ("A", "B", "C", "p", "q", "a", "b", "c", "d")
CHILDREN = {"a": "A", "b": "A", "c": "B", "d": "C", "C": "B"}


@st.composite
def platforms(draw: st.DrawFn) -> dict[str, Member]:
    """Instances with children, one of them nested, and plain objects; each may read any other, and uses some of its set that come before it."""
    live = {}
    for index, name in enumerate(NAMES):
        reads = draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=2))
        siblings = [other for other in NAMES[:index] if CHILDREN.get(other) == CHILDREN.get(name)]
        uses = draw(st.lists(st.sampled_from(siblings), unique=True, max_size=1)) if siblings else []
        live[name] = member(name, *reads, uses=tuple(uses))
    return live


@settings(derandomize=True, deadline=None, database=None, max_examples=150)
@given(live=platforms(), data=st.data())
def test_no_read_object_goes_while_a_reader_is_there_and_all_go_in_the_end(
    live: dict[str, Member], data: st.DataObject
) -> None:
    """I4: whatever hangs for a while, whatever reads what. Only circles are cut."""
    for _ in range(80):
        if not live:
            return
        order = order_of(live, CHILDREN)
        allowed = [
            name
            for name, one in live.items()
            if not one.is_terminating
            and (name not in CHILDREN or live[CHILDREN[name]].is_terminating)
            and not any(key_hash(one.key) in user.dependencies for user in live.values() if user is not one)
            and not first(order, name)
        ]
        for name in allowed:
            readers = [reader for reader, one in live.items() if key_hash(key(name)) in one.reads and reader != name]
            assert all(reader in needed_by(live, name) for reader in readers), f"{name} goes although {readers} read it"
            live[name] = replace(live[name], is_terminating=True)
        over = [
            name
            for name, one in live.items()
            if one.is_terminating and name not in {CHILDREN.get(child) for child in live}
        ]
        assert over or allowed, "nothing goes any more"
        for name in over[: data.draw(st.integers(1, len(over)))] if over else ():  # the others have a finalizer
            del live[name]
    raise AssertionError("it never ends")


def needed_by(live: dict[str, Member], name: str) -> set[str]:
    """Who cannot be gone before this one is asked to go, by the chain of what is in what, what uses and what reads what."""
    found: set[str] = set()
    pending = [name]
    while pending:
        one = pending.pop()
        after = {other for other in live if CHILDREN.get(other) == one}
        after |= {CHILDREN[one]} & live.keys() if one in CHILDREN else set()
        after |= {other for other in live if key_hash(key(other)) in live[one].dependencies | live[one].reads}
        for other in after - found:
            found.add(other)
            pending.append(other)
    return found
