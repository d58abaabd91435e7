"""Our dataclasses behave as those of the standard library do."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, field, fields, replace
from functools import cached_property
from typing import Any, ClassVar

import pytest

from renderer import frozen


def _classes(dataclass: Callable[..., Any]) -> tuple[Any, ...]:
    """The same classes by one decorator or the other: all that the program asks of one."""

    @dataclass(frozen=True, slots=True)
    class Empty:
        pass

    @dataclass(frozen=True, slots=True)
    class One:
        name: Any

    @dataclass(frozen=True, slots=True)
    class Many:
        name: str
        size: int = 3
        tags: tuple[str, ...] = field(default=("a",), kw_only=True)
        more: dict[str, int] = field(default_factory=dict, hash=False)
        note: str = field(default="", compare=False, repr=False)
        limit: ClassVar[int] = 7

        @property
        def long(self) -> str:
            return self.name * self.size

    @dataclass(frozen=True, slots=True)
    class Below(Many):
        depth: int = 0

    @dataclass(frozen=True, slots=True)
    class Derived:
        sides: tuple[int, ...]
        area: int = field(init=False)
        seen: dict[str, int] = field(default_factory=dict, init=False, compare=False)
        kind: str = field(default="box", init=False)

        def __post_init__(self) -> None:
            object.__setattr__(self, "area", self.sides[0] * self.sides[1])

    @dataclass(frozen=True, slots=True)
    class Own:
        name: str

        def __eq__(self, other: object) -> bool:
            return isinstance(other, type(self))

        def __hash__(self) -> int:
            return 5

        def __repr__(self) -> str:
            return "own"

    @dataclass(frozen=True, slots=True, eq=False)
    class Same:
        name: str

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Named:
        name: str = "a"
        size: int

    @dataclass(frozen=True, slots=True, order=True)
    class Ordered:
        name: str
        size: int = 0

    @dataclass
    class Open:
        name: str
        tags: list[str] = field(default_factory=list)
        note: str = field(default="", init=False)

    @dataclass(slots=True)
    class OpenSlots(Open):
        size: int = 0

    @dataclass(frozen=True)
    class Loose:
        name: str
        size: int = 3

        @cached_property
        def long(self) -> str:
            return self.name * self.size

    @dataclass(repr=False, eq=False)
    class Bare:
        name: str

    return Empty, One, Many, Below, Derived, Own, Same, Named, Ordered, Open, OpenSlots, Loose, Bare


OURS, THEIRS = _classes(frozen.dataclass), _classes(dataclasses.dataclass)
CASES: list[tuple[int, tuple[Any, ...], dict[str, Any]]] = [
    (0, (), {}),
    (0, (1,), {}),
    (1, ("a",), {}),
    (1, (float("nan"),), {}),
    (1, ([],), {}),
    (1, (), {}),
    (2, ("a",), {}),
    (2, ("a", 4, {"b": 1}, "n"), {"tags": ()}),
    (2, ("a", 4, {}, "n", ()), {}),
    (2, (), {"name": "a", "more": {}, "note": "other"}),
    (2, ("a",), {"other": 1}),
    (3, ("a", 4, {}, "n", 9), {}),
    (4, ((2, 3),), {}),
    (4, ((2, 3), 6), {}),
    (5, ("a",), {}),
    (6, ("a",), {}),
    (7, (), {"size": 1}),
    (7, ("a", 1), {}),
    (8, ("a",), {}),
    (9, ("a",), {}),
    (9, ("a", ["b"]), {}),
    (10, ("a", [], 4), {}),
    (11, ("a",), {}),
    (11, (["a"],), {"size": 1}),
    (12, ("a",), {}),
]


@pytest.mark.parametrize(("which", "arguments", "named"), CASES)
def test_it_is_made_shown_compared_and_copied_as_the_standard_library_does_it(
    which: int, arguments: tuple[Any, ...], named: dict[str, Any]
) -> None:
    ours, theirs = (_behaviour(classes[which], arguments, named) for classes in (OURS, THEIRS))
    assert ours == theirs


def _behaviour(cls: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
    def told(act: Callable[[], Any]) -> Any:
        try:
            return act()
        except Exception as error:
            return type(error).__name__

    if isinstance(made := told(lambda: cls(*arguments, **named)), str):
        return {"refused": made}
    again, names = cls(*arguments, **named), [each.name for each in fields(made)]
    shown = {"shown": repr(made)} if "object at" not in repr(made) else {}
    return shown | {
        "fields": [(each.name, each.type, each.init, each.compare, each.kw_only) for each in fields(made)],
        "values": [getattr(made, name) for name in names],
        "equal": (made == again, made != again, made == made, made == (), made == dataclasses.astuple(made)),
        "hash": told(lambda: hash(made) == hash(again)),
        "matched": cls.__match_args__,
        "slots": (getattr(cls, "__slots__", None), hasattr(made, "__dict__")),
        "replaced": told(lambda: repr(replace(made, name="z")) if "name" in names and shown else None),
        "set": told(lambda: setattr(made, names[0], 1)) if names else None,
        "deleted": told(lambda: delattr(made, names[0])) if names else None,
        "unknown": told(lambda: setattr(made, "unknown", 1)) is None,
        "long": getattr(made, "long", None),
        "copied": told(lambda: [getattr(copy.deepcopy(made), name) for name in names]),
        "dict": dataclasses.asdict(again),
    }


def test_fields_that_are_not_compared_do_not_count() -> None:
    _, _, many, *_ = OURS
    assert many("a", note="b") == many("a", note="c")
    assert many("a", 1) != many("a", 2)
    assert hash(many("a", more={"b": 1})) == hash(many("a", more={"b": 2}))
    assert many("a", more={"b": 1}) != many("a", more={"b": 2})


def test_another_class_with_the_same_fields_is_not_equal() -> None:
    assert OURS[2]("a") != OURS[3]("a")


def test_a_factory_makes_one_for_each() -> None:
    assert OURS[2]("a").more is not OURS[2]("b").more


@frozen.dataclass(frozen=True, slots=True)
class Sent:
    name: str
    more: tuple[str, ...] = ()


def test_it_can_be_sent_to_another_process() -> None:
    assert pickle.loads(pickle.dumps(Sent("a", ("b",)))) == Sent("a", ("b",))


def test_what_has_an_order_is_sorted_by_it() -> None:
    ordered = OURS[8]
    small, large = ordered("a", 2), ordered("b", 1)
    assert sorted([large, small]) == [small, large]
    assert (small < large, small <= small, large > small, small >= large) == (True, True, True, False)
    with pytest.raises(TypeError, match="not supported between"):
        assert small < ("b", 1)


def test_what_holds_itself_is_shown() -> None:
    held: list[Any] = []
    held.append(OURS[1](held))
    assert repr(held[0]) == f"{type(held[0]).__qualname__}(name=[...])"


def test_it_stays_as_it_is() -> None:
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'name'"):
        Sent("a").name = "b"  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError, match="cannot delete field 'name'"):
        del Sent("a").name
