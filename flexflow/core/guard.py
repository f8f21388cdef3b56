"""What the objects of the core refuse: attributes that would act on nothing, and copies."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any, ClassVar, NoReturn


class Guarded:
    """Public attributes are those that a class of the core declares: ``Final`` ones are set once,
    when the object is made. Classes that programs derive may have further ones.

    Copies are refused, since most of these objects are numbers of something in the library: a copy
    would share that, and close it.
    """

    _instead_of_a_copy: ClassVar[str]
    _settable: ClassVar[dict[str, bool]] = {}  # name: whether only once

    def __init_subclass__(cls) -> None:
        declared = {
            name: str(annotation).startswith("Final")
            for name, annotation in getattr(cls, "__annotations__", {}).items()
            if not str(annotation).startswith("ClassVar")
        }
        with_setter = {
            name: False
            for name, member in vars(cls).items()
            if isinstance(member, property) and member.fset is not None
        }
        cls._settable = {**cls._settable, **declared, **with_setter}

    def __setattr__(self, name: str, value: Any) -> None:
        if not name.startswith("_"):
            self._check_attribute(name)
        object.__setattr__(self, name, value)

    def _check_attribute(self, name: str) -> None:
        kind = type(self)
        if name not in self._settable:
            if kind.__module__.startswith("flexflow.core"):  # not a program's own class
                raise AttributeError(
                    f"{kind.__name__} has no attribute {name!r} that can be set"
                    + did_you_mean(name, self._settable)
                )
        elif self._settable[name] and name in vars(self):
            raise AttributeError(
                f"{kind.__name__}.{name} is fixed; make another {kind.__name__} instead"
            )

    def __reduce__(self) -> NoReturn:
        # For copy.copy, copy.deepcopy and pickle alike.
        raise TypeError(
            f"{type(self).__name__} cannot be copied or pickled; {self._instead_of_a_copy}"
        )


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of a message about a name that there is not.

    >>> did_you_mean("batchsize", ["batch_size", "epochs"])
    "; did you mean 'batch_size'?"
    """
    near = get_close_matches(name, list(known), 1)
    return f"; did you mean {near[0]!r}?" if near else ""
