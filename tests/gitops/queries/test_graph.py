"""The rules of the graph one by one: what is computed again, what is told, and what is refused."""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import pytest

from gitops.queries import (
    Contributions,
    CyclicQuery,
    Fault,
    Input,
    OutOfTurn,
    Query,
    QueryGraph,
    QueryIndex,
    Roots,
    has_passed,
    query,
)

E = TypeVar("E", bound=Hashable)
C = TypeVar("C")

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)

size: Input[[str], int] = Input("size", initial=0, starts_unread=False)
names: Input[[], frozenset[str]] = Input("names", initial=frozenset(), starts_unread=False)
live: Input[[str], int] = Input("live", initial=0, starts_unread=True)
proof: Input[[str], bool] = Input("proof", initial=False, starts_unread=True, is_proof=True)


@query
def is_large(graph: QueryGraph, name: str) -> bool:
    return size(graph, name) > 10


@query
def label(graph: QueryGraph, name: str) -> str:
    return f"{name} is large" if is_large(graph, name) else f"{name} is small"


@query
def all_names(graph: QueryGraph) -> frozenset[str]:
    return names(graph)


@query
def by_size(graph: QueryGraph, name: str) -> Mapping[int, int]:
    return {size(graph, name): 1}


def index_of_names(
    name: str, contributions: Query[[str], Mapping[E, C]]
) -> QueryIndex[str, E, C, Contributions[str, C]]:
    return QueryIndex(
        name,
        order=1,
        members=all_names,
        contributions=contributions,
        new_entry=Contributions[str, C],
        spreads_unread=False,
    )


of_size = index_of_names("of size", by_size)


@query
def companions(graph: QueryGraph, name: str) -> int:
    return len(of_size(graph, size(graph, name)))


COMPANIONS = Roots("companions", order=99, members=all_names, result=companions)


@query
def deletion(graph: QueryGraph, name: str) -> bool:
    return live(graph, name) > 0 and proof(graph, name)


@query
def link(graph: QueryGraph, place: int) -> int:
    return link(graph, place - 1) + 1 if place else size(graph, "start")


@query
def endless(graph: QueryGraph, name: str) -> int:
    return endless(graph, name) if size(graph, name) else 0


@pytest.fixture
def graph() -> QueryGraph:
    return QueryGraph(NOON, elapsed=lambda: 0.0)


def put(graph: QueryGraph, **sizes: int) -> None:
    with graph.transaction() as transaction:
        for name, value in sizes.items():
            transaction.set(size.at(name), value)
        transaction.set(names.at(), names(graph) | sizes.keys() if not graph.revision else frozenset(sizes))


def test_a_result_that_is_equal_goes_no_further(graph: QueryGraph) -> None:
    with graph.transaction() as transaction:
        transaction.set(size.at("a"), 20)
    assert label(graph, "a") == "a is large"
    root = Roots("labels", order=99, members=one_name, result=label)
    assert [answer.value for answer in graph.changed(root)] == ["a is large"]
    before = graph.cost.evaluations.copy()
    with graph.transaction() as transaction:
        transaction.set(size.at("a"), 30)
    assert list(graph.changed(root)) == []
    assert graph.cost.evaluations - before == {"is_large": 1}


@query
def one_name(graph: QueryGraph) -> frozenset[str]:
    return frozenset({"a"})


def test_roots_bring_only_the_indexes_up_to_date_that_they_may_read(graph: QueryGraph) -> None:
    """A cheap question must not cost the members of an index that only a later question reads."""
    put(graph, a=1, b=1)
    small = Roots("labels", order=1, members=all_names, result=label)
    assert {answer.key: answer.value for answer in graph.changed(COMPANIONS)} == {"a": 2, "b": 2}
    before = graph.cost.evaluations.copy()
    with graph.transaction() as transaction:
        transaction.set(size.at("a"), 20)
    assert {answer.key: answer.value for answer in graph.changed(small)} == {"a": "a is large", "b": "b is small"}
    assert "by_size" not in graph.cost.evaluations - before
    assert graph.answer_of(small, "a").value == "a is large"
    assert {answer.key: answer.value for answer in graph.changed(COMPANIONS)} == {"a": 1, "b": 1}


def test_roots_that_read_an_index_of_no_lower_order_are_refused(graph: QueryGraph) -> None:
    """Such a root would rest on an index that is not up to date."""
    put(graph, a=1)
    early = Roots("early", order=1, members=all_names, result=companions)
    with pytest.raises(OutOfTurn, match="root 'a' of early reads an index of order 1; raise the order"):
        list(graph.changed(early))


def test_an_equal_input_marks_nothing(graph: QueryGraph) -> None:
    assert label(graph, "a") == "a is small"
    before = graph.cost.marks.total()
    with graph.transaction() as transaction:
        transaction.set(size.at("a"), 0)
    assert graph.cost.marks.total() == before


@pytest.mark.parametrize("count", [10, 300])
def test_the_cost_of_a_change_does_not_depend_on_how_many_there_are(graph: QueryGraph, count: int) -> None:
    """A member that leaves one entry for another reaches only the readers of these two."""
    keys = frozenset(f"n{place}" for place in range(count))
    with graph.transaction() as transaction:
        transaction.set(names.at(), keys)
        for place, name in enumerate(sorted(keys)):
            transaction.set(size.at(name), place)
    assert len(list(graph.changed(COMPANIONS))) == count
    before = graph.cost.evaluations.copy()
    with graph.transaction() as transaction:
        transaction.set(size.at(min(keys)), 5)
    changed = {answer.key: answer.value for answer in graph.changed(COMPANIONS)}
    assert len(changed) == 2
    assert set(changed.values()) == {2}
    assert (graph.cost.evaluations - before).total() <= 4


def test_an_error_inside_a_transaction_sets_nothing(graph: QueryGraph) -> None:
    def change() -> None:
        with graph.transaction() as transaction:
            transaction.set(size.at("a"), 20)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        change()
    assert size(graph, "a") == 0


def test_an_error_in_a_comparison_sets_nothing(graph: QueryGraph) -> None:
    """The change of a commit is not torn by an error of ours."""

    def fails(_: Any, __: Any) -> bool:
        raise ZeroDivisionError

    odd: Input[[], int] = Input("odd", initial=0, starts_unread=False, same=fails)

    def change() -> None:
        with graph.transaction() as transaction:
            transaction.set(size.at("a"), 20)
            transaction.set(odd.at(), 1)

    with pytest.raises(ZeroDivisionError):
        change()
    assert size(graph, "a") == 0


def test_what_is_unread_is_told_with_every_result(graph: QueryGraph) -> None:
    answer = graph.answer(deletion, "a")
    assert answer.unread == {live.at("a")}
    with graph.transaction() as transaction:
        transaction.set(live.at("a"), 1)
    assert graph.answer(deletion, "a").unread == {proof.at("a")}


def test_a_doubt_that_changes_no_value_computes_nothing_again(graph: QueryGraph) -> None:
    """Queries see values. So only what is unread behind the results is told anew."""
    with graph.transaction() as transaction:
        transaction.set(live.at("a"), 1)
    kept = Roots("kept", order=99, members=kept_names, result=live_twice)
    assert [answer.unread for answer in graph.changed(kept)] == [frozenset()]
    before = graph.cost.evaluations.copy()
    with graph.transaction() as transaction:
        transaction.doubt(live.at("a"))
    assert [answer.unread for answer in graph.changed(kept)] == [{live.at("a")}]
    assert graph.cost.evaluations == before


@query
def kept_names(_graph: QueryGraph) -> frozenset[str]:
    return frozenset({"a"})


@query
def live_twice(graph: QueryGraph, name: str) -> int:
    return 2 * live(graph, name)


@query
def by_kind(graph: QueryGraph, name: str) -> Mapping[int, int]:
    return {live(graph, name): 1}


of_kind: QueryIndex[str, int, int, Contributions[str, int]] = QueryIndex(
    "of kind", order=1, members=live, contributions=by_kind, new_entry=Contributions[str, int], spreads_unread=False
)


@query
def members_of(graph: QueryGraph, kind: int) -> frozenset[str]:
    return frozenset(of_kind(graph, kind))


@query
def own_then_all(graph: QueryGraph, name: str) -> int:
    return live(graph, name) + total(graph)


@query
def total(graph: QueryGraph) -> int:
    return sum(live(graph, name) for name in names(graph))


def test_results_with_the_same_unread_inputs_share_one_set(graph: QueryGraph) -> None:
    """A set for each of many results, each with the inputs of all, would need memory by the square of their number."""
    with graph.transaction() as transaction:
        transaction.set(names.at(), frozenset("abc"))
    kept = Roots("kept", order=9, members=all_names, result=own_then_all)
    answers = list(graph.changed(kept))
    assert len(answers) == 3
    assert len({id(answer.unread_nodes) for answer in answers}) == 1


def test_a_member_that_failed_fails_only_what_reads_its_own_contribution(graph: QueryGraph) -> None:
    @query
    def inverse(graph: QueryGraph, name: str) -> Mapping[str, float]:
        return {name: 1 / size(graph, name)}

    inverses = index_of_names("inverses", inverse)

    @query
    def own_inverse(graph: QueryGraph, name: str) -> float | None:
        return inverses.contribution_of(graph, name, name)

    put(graph, a=2, b=0)
    assert graph.read(own_inverse, ("a",)) == 0.5
    assert graph.read(own_inverse, ("other",)) is None
    with pytest.raises(Fault):
        graph.read(own_inverse, ("b",))


def test_roots_are_computed_one_in_each_step_and_reported_later(graph: QueryGraph) -> None:
    with graph.transaction() as transaction:
        transaction.set(names.at(), frozenset("abc"))
    labels = Roots("labels", order=9, members=all_names, result=label)
    steps = graph.refreshing(labels)
    next(steps)
    with pytest.raises(OutOfTurn):
        graph.read(label, ("a",))
    assert len(list(steps)) == 2
    before = graph.cost.evaluations.copy()
    assert {answer.key for answer in graph.changed(labels)} == set("abc")
    assert graph.cost.evaluations == before


def test_a_prepared_index_computes_one_member_in_each_step(graph: QueryGraph) -> None:
    """An index that a query reads first would compute all of its members in one step."""
    with graph.transaction() as transaction:
        transaction.set(names.at(), frozenset("abc"))
    graph.settle()
    sizes = index_of_names("sizes", by_size)
    graph.prepare(sizes)
    steps = graph.settling()
    next(steps)
    assert graph.cost.evaluations["by_size"] == 1
    list(steps)
    assert graph.cost.evaluations["by_size"] == 3
    assert list(graph.settling()) == []


@query(hides_unread=True)
def rank(graph: QueryGraph, name: str) -> int:
    return live(graph, name)


def test_a_result_that_hides_unread_inputs_counts_as_read_and_follows_them(graph: QueryGraph) -> None:
    assert graph.answer(rank, "a")[:3] == (("a",), 0, frozenset())
    with graph.transaction() as transaction:
        transaction.set(live.at("a"), 3)
    assert graph.answer(rank, "a")[:3] == (("a",), 3, frozenset())
    with graph.transaction() as transaction:
        transaction.doubt(live.at("a"))
    assert graph.answer(rank, "a")[:3] == (("a",), 3, frozenset())


def test_a_doubted_input_keeps_its_place_in_an_index(graph: QueryGraph) -> None:
    with graph.transaction() as transaction:
        transaction.set(live.at("a"), 1)
        transaction.set(live.at("b"), 2)
    assert members_of(graph, 1) == {"a"}
    with graph.transaction() as transaction:
        transaction.doubt(live.at("a"))
    answers = [graph.answer(members_of, kind) for kind in (1, 2)]
    assert [answer.value for answer in answers] == [frozenset("a"), frozenset("b")]
    assert [answer.unread for answer in answers] == [{live.at("a")}, frozenset()]
    with graph.transaction() as transaction:
        transaction.set(live.at("a"), 2)
    answer = graph.answer(members_of, 2)
    assert (answer.value, answer.unread) == (frozenset("ab"), frozenset())
    with graph.transaction() as transaction:
        transaction.set(live.at("a"), 0)
    assert members_of(graph, 2) == {"b"}


@pytest.mark.parametrize("count", [10, 300])
def test_a_new_input_costs_the_readers_of_its_entry_alone(graph: QueryGraph, count: int) -> None:
    with graph.transaction() as transaction:
        for place in range(count):
            transaction.set(live.at(f"n{place}"), place + 1)
    kinds = Roots("kinds", order=99, members=kind_numbers(count), result=members_of)
    assert len(list(graph.changed(kinds))) == count
    before = graph.cost.evaluations.copy()
    with graph.transaction() as transaction:
        transaction.set(live.at("new"), 5)
    assert [answer.key for answer in graph.changed(kinds)] == [5]
    assert graph.cost.evaluations - before == {"by_kind": 1, "members_of": 1}


def kind_numbers(count: int) -> Any:
    @query
    def numbers(graph: QueryGraph) -> frozenset[int]:
        return frozenset(range(1, count + 1))

    return numbers


def test_a_proof_vouches_for_no_later_state(graph: QueryGraph) -> None:
    with graph.transaction() as transaction:
        transaction.set(live.at("a"), 1)
        transaction.set(proof.at("a"), True)
    assert graph.answer(deletion, "a").value
    with graph.transaction() as transaction:
        transaction.set(live.at("a"), 2)
    answer = graph.answer(deletion, "a")
    assert not answer.value
    assert answer.unread == {proof.at("a")}
    with graph.transaction() as transaction:
        transaction.set(live.at("a"), 3)
        transaction.set(proof.at("a"), True)
    assert graph.answer(deletion, "a").value, "read together with what it is about"


def test_an_equal_proof_that_is_read_again_holds_for_the_new_state(graph: QueryGraph) -> None:
    for value in (1, 2):
        with graph.transaction() as transaction:
            transaction.set(live.at("a"), value)
            transaction.set(proof.at("a"), True)
        answer = graph.answer(deletion, "a")
        assert answer.value
        assert answer.unread == frozenset()


def test_only_a_root_reads_a_proof(graph: QueryGraph) -> None:
    with graph.transaction() as transaction:
        transaction.set(live.at("a"), 1)

    @query
    def careless(graph: QueryGraph) -> bool:
        return deletion(graph, "a")

    with pytest.raises(Fault, match="reads a proof, which only a root may do"):
        careless(graph)


def told(ask: Callable[[], Any]) -> str:
    try:
        return str(ask())
    except Fault as fault:
        return str(fault)


def test_an_error_in_a_query_costs_what_reads_it_and_no_more(
    graph: QueryGraph, caplog: pytest.LogCaptureFixture
) -> None:
    """The exception is logged once, under the number that every reader tells."""

    @query
    def inverse(graph: QueryGraph, name: str) -> float:
        return 1 / size(graph, name)

    @query
    def above(graph: QueryGraph, name: str) -> float:
        return inverse(graph, name) + 1

    @query
    def both(graph: QueryGraph) -> tuple[str, str]:
        return told(lambda: above(graph, "a")), told(lambda: inverse(graph, "a"))

    with caplog.at_level(logging.ERROR):
        assert both(graph) == ("InternalError 1 in inverse('a'): ZeroDivisionError: division by zero",) * 2
    assert len(caplog.records) == 1
    with graph.transaction() as transaction:
        transaction.set(size.at("b"), 2)
        transaction.set(size.at("a"), 1)
    assert above(graph, "b") == 1.5
    assert above(graph, "a") == 2


def test_a_member_that_fails_is_told_apart(graph: QueryGraph) -> None:
    """A guard must not count a member that is not known as one that is not there."""

    @query
    def inverse(graph: QueryGraph, name: str) -> Mapping[str, float]:
        return {"all": 1 / size(graph, name)}

    inverses = index_of_names("inverses", inverse)

    @query
    def known(graph: QueryGraph) -> tuple[list[str], list[str]]:
        return sorted(inverses(graph, "all")), sorted(inverses.failed(graph))

    put(graph, a=1, b=0)
    assert known(graph) == (["a"], ["b"])
    put(graph, a=1, b=2)
    assert known(graph) == (["a", "b"], [])


def test_a_query_that_reads_itself_fails_and_recovers(graph: QueryGraph) -> None:
    with graph.transaction() as transaction:
        transaction.set(size.at("a"), 1)
    with pytest.raises(Fault) as raised:
        endless(graph, "a")
    assert isinstance(raised.value.__cause__, CyclicQuery)
    with graph.transaction() as transaction:
        transaction.set(size.at("a"), 0)
    assert endless(graph, "a") == 0


def test_a_member_of_an_index_that_reads_it_fails(graph: QueryGraph) -> None:
    @query
    def circular(graph: QueryGraph, name: str) -> Mapping[str, int]:
        return {"all": len(circle(graph, "all")) + size(graph, name)}

    circle: QueryIndex[str, str, int, Contributions[str, int]] = index_of_names("circle", circular)

    @query
    def known(graph: QueryGraph) -> tuple[int, list[str]]:
        return len(circle(graph, "all")), sorted(circle.failed(graph))

    put(graph, a=1)
    assert known(graph) == (0, ["a"])


def test_a_long_chain_is_checked_without_recursion(graph: QueryGraph) -> None:
    for place in range(2000):
        link(graph, place)
        keep = Roots(f"kept {place}", order=99, members=one_place(place), result=link)
        assert len(list(graph.changed(keep))) == 1
    with graph.transaction() as transaction:
        transaction.set(size.at("start"), 5)
    assert link(graph, 1999) == 2004


def one_place(place: int) -> Any:
    @query
    def places(graph: QueryGraph) -> frozenset[int]:
        return frozenset({place})

    return places


def test_time_is_an_input(graph: QueryGraph) -> None:
    """Also where the clock was set back."""
    evening = NOON + timedelta(hours=6)

    @query
    def is_open(graph: QueryGraph) -> bool:
        return has_passed(graph, evening)

    windows = Roots("windows", order=99, members=only, result=lambda_of(is_open))
    assert [answer.value for answer in graph.changed(windows)] == [False]
    assert graph.next_moment == evening
    graph.advance(NOON + timedelta(hours=5))
    assert list(graph.changed(windows)) == []
    graph.advance(evening)
    assert [answer.value for answer in graph.changed(windows)] == [True]
    assert [graph.next_moment] == [None]
    graph.advance(NOON)
    assert [answer.value for answer in graph.changed(windows)] == [False]
    assert graph.next_moment == evening


@query
def only(graph: QueryGraph) -> frozenset[int]:
    return frozenset({0})


def lambda_of(inner: Any) -> Any:
    @query
    def result(graph: QueryGraph, _: int) -> bool:
        return bool(inner(graph))

    return result


def test_a_supposition_leaves_nothing(graph: QueryGraph) -> None:
    assert label(graph, "a") == "a is small"
    with graph.supposing({size.at("a"): 20, live.at("a"): 3}):
        assert label(graph, "a") == "a is large"
        assert live(graph, "a") == 3
    assert label(graph, "a") == "a is small"
    assert graph.answer(deletion, "a").unread == {live.at("a")}


def test_questions_and_changes_take_turns(graph: QueryGraph) -> None:
    @query
    def meddling(graph: QueryGraph) -> int:
        with graph.transaction() as transaction:
            transaction.set(size.at("a"), 1)
        return 0

    with pytest.raises(Fault, match="OutOfTurn"):
        meddling(graph)
    put(graph, a=1, b=2)
    assert len(list(graph.changed(COMPANIONS))) == 2
    put(graph, a=2, b=3)
    steps = graph.settling()
    next(steps)
    with pytest.raises(OutOfTurn):
        label(graph, "a")
    for _ in steps:
        pass
    assert {answer.key for answer in graph.changed(COMPANIONS)} <= {"a", "b"}


def test_reads_of_one_block_share_what_they_compute(graph: QueryGraph) -> None:
    """Without the block, each read from outside computes what no root keeps."""
    put(graph, a=1, b=2)
    for _ in range(2):
        label(graph, "a")
        graph.settle()
    assert graph.cost.evaluations["label"] == 2
    with graph.reading():
        assert [label(graph, "b") for _ in range(3)] == ["b is small"] * 3
        with pytest.raises(OutOfTurn):
            put(graph, b=20)
    assert graph.cost.evaluations["label"] == 3
    graph.settle()
    assert not graph._nodes[label]


def test_what_nothing_needs_is_dropped(graph: QueryGraph) -> None:
    put(graph, a=1, b=2)
    list(graph.changed(COMPANIONS))
    with graph.transaction() as transaction:
        transaction.set(names.at(), frozenset({"b"}))
    gone = [answer.key for answer in graph.changed(COMPANIONS) if answer.is_gone]
    assert gone == ["a"]
    graph.settle()
    assert {node.args for node in graph._nodes[companions].values()} == {("b",)}


def test_a_volatile_result_is_computed_again_only_for_a_reader(graph: QueryGraph) -> None:
    @query(digest_of=hash)
    def text(graph: QueryGraph, name: str) -> str:
        return "long " * size(graph, name)

    @query
    def length(graph: QueryGraph, name: str) -> int:
        return len(text(graph, name)) + size(graph, "besides")

    lengths = Roots("lengths", order=99, members=all_names, result=length)
    put(graph, a=2)
    assert [answer.value for answer in graph.changed(lengths)] == [10]
    graph.end_round()
    (node,) = graph._nodes[text].values()
    assert not isinstance(node.value, str), "it is dropped"
    with graph.transaction() as transaction:
        transaction.set(size.at("besides"), 1)
    before = graph.cost.evaluations.copy()
    assert [answer.value for answer in graph.changed(lengths)] == [11]
    assert graph.cost.evaluations - before == {"text": 1, "length": 1}


def test_a_result_that_was_altered_is_found_and_mended(graph: QueryGraph) -> None:
    put(graph, a=1, b=2)
    list(graph.changed(COMPANIONS))
    (node,) = (node for node in graph._nodes[companions].values() if node.args == ("a",))
    node.value = 100
    assert graph.verify(1000) == ["companions('a')"]
    assert [(answer.key, answer.value) for answer in graph.changed(COMPANIONS)] == [("a", 1)]
    assert graph.verify(1000) == []
