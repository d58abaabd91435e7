"""Decorator `dataclass` with the behaviour of the standard library and lower cost at start-up.

The standard library compiles up to six functions at the definition of a class, in about 0.5 ms for each class. The
compilation adds about 100 ms to a short command such as `levelgate render`, which calls few of these functions. This
decorator compiles a function at its first call. The initialiser of a frozen class fills the slots directly, without
`object.__setattr__`.

Type checkers see the standard library's decorator. `fields`, `replace` and `match` work on the classes as usual.

Source: `docs/adr/0023-value-types.md`, with measurements of the alternatives.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from dataclasses import MISSING, Field, FrozenInstanceError
from functools import partial
from reprlib import recursive_repr
from types import MemberDescriptorType
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass  # exported for other modules
else:

    def dataclass(cls=None, /, **how):
        """Make a class a dataclass.

        Args:
            how: The options of the standard library's decorator.
        """
        return _made(cls, **how) if cls is not None else lambda plain: _made(plain, **how)


_ORDER = {"__lt__": "<", "__le__": "<=", "__gt__": ">", "__ge__": ">="}


def _made(
    cls: type,
    *,
    frozen: bool = False,
    slots: bool = False,
    eq: bool = True,
    order: bool = False,
    repr: bool = True,  # noqa: A002 - the standard library's name
    kw_only: bool = False,
) -> type:
    """Return `cls` as a dataclass with generated methods. Methods that `cls` defines itself stay."""
    defined_names = {name for name, defined in vars(cls).items() if defined is not None}
    cls.__doc__ = cls.__doc__ or cls.__name__  # avoids the slow signature that dataclasses computes as a docstring
    new_class: type = dataclasses.dataclass(init=False, eq=False, repr=False, slots=slots, kw_only=kw_only)(cls)
    methods: dict[str, Any] = {"__init__": _compile_lazily(new_class, "__init__", partial(_write_init, frozen))}
    if repr:
        methods["__repr__"] = _represent
    for name, sign in {**({"__eq__": "=="} if eq else {}), **(_ORDER if order else {})}.items():
        methods[name] = _compile_lazily(new_class, name, partial(_write_comparison, name, sign))
    if eq:
        methods["__hash__"] = _compile_lazily(new_class, "__hash__", _write_hash) if frozen else None
    if frozen:
        methods |= {"__setattr__": _refuse_to_set, "__delattr__": _refuse_to_delete}
        if slots:
            methods["__setstate__"] = _restore
    for name in methods.keys() - defined_names:
        setattr(new_class, name, methods[name])
    return new_class


def _compile_lazily(cls: type, name: str, write: Callable[[type, dict[str, Any]], Iterable[str]]) -> Any:
    """Return a function that, at its first call, compiles the method `name` and replaces itself by the method.

    Args:
        write: Function that returns the source lines of the method, and adds the values that the lines use to a
            namespace.
    """

    def first(self: Any, *arguments: Any, **named: Any) -> Any:
        namespace: dict[str, Any] = {}
        exec("\n ".join(write(cls, namespace)), namespace)
        function = namespace[name]
        function.__qualname__ = f"{cls.__qualname__}.{name}"  # for the error of a call with wrong arguments
        setattr(cls, name, function)
        return function(self, *arguments, **named)

    return first


def _write_init(frozen: bool, cls: type, namespace: dict[str, Any]) -> Iterable[str]:
    namespace |= {"MISSING": MISSING, "keep": object.__setattr__}
    positional, keyword, lines = ["self"], ["*"], []
    for field in dataclasses.fields(cls):
        name = value = field.name
        default = fallback = ""
        if field.default_factory is not MISSING:
            namespace[f"default_{name}"], fallback, default = field.default_factory, f"default_{name}()", "=MISSING"
            value = f"{fallback} if {name} is MISSING else {name}"
        elif field.default is not MISSING:
            namespace[f"default_{name}"], fallback, default = field.default, f"default_{name}", f"=default_{name}"
        if field.init:
            (keyword if field.kw_only else positional).append(name + default)
        else:
            value = fallback
        if value:
            slot = getattr(cls, name, None)
            if not frozen:
                lines.append(f"self.{name} = {value}")
            elif isinstance(slot, MemberDescriptorType):
                namespace[f"set_{name}"] = slot.__set__
                lines.append(f"set_{name}(self, {value})")
            else:
                lines.append(f"keep(self, {name!r}, {value})")
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    parameters = ", ".join(positional + (keyword if len(keyword) > 1 else []))
    return f"def __init__({parameters}):", *lines, "pass"


def _write_comparison(name: str, sign: str, cls: type, namespace: dict[str, Any]) -> Iterable[str]:
    compared_fields = [field for field in dataclasses.fields(cls) if field.compare]
    yield f"def {name}(self, other):"
    yield "if other.__class__ is not self.__class__: return NotImplemented"
    yield f"return {_write_tuple('self', compared_fields)} {sign} {_write_tuple('other', compared_fields)}"


def _write_hash(cls: type, namespace: dict[str, Any]) -> Iterable[str]:
    fields = dataclasses.fields(cls)
    yield "def __hash__(self):"
    hashed_fields = [field for field in fields if (field.compare if field.hash is None else field.hash)]
    yield f"return hash({_write_tuple('self', hashed_fields)})"


def _write_tuple(owner: str, fields: Iterable[Field[Any]]) -> str:
    return f"({''.join(f'{owner}.{field.name}, ' for field in fields)})"


@recursive_repr()
def _represent(self: Any) -> str:
    parts = (f"{field.name}={getattr(self, field.name)!r}" for field in dataclasses.fields(self) if field.repr)
    return f"{type(self).__qualname__}({', '.join(parts)})"


def _refuse_to_set(self: Any, name: str, value: object) -> NoReturn:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(self: Any, name: str) -> NoReturn:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _restore(self: Any, state: tuple[None, dict[str, Any]]) -> None:
    """Set the fields of a copied or unpickled object. A frozen object does not accept ordinary assignments."""
    for name, value in state[1].items():
        object.__setattr__(self, name, value)
