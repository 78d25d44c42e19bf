"""The registry of groups: a name belongs to one group."""

from __future__ import annotations

from .._core.text import unknown
from .base import Group
from .products import product

_REGISTRY: dict[str, Group] = {}


def register(group: Group) -> Group:
    """Make a group known by name to `get_group`, checkpoints, files and the shared tests.

    Returns the group. Raises ValueError if another group has the name; "se(3)" and "SE3" are one
    name.

    >>> import lieattn as la
    >>> la.groups.register(la.SE3)
    lieattn.SE3
    """
    if not isinstance(group, Group):
        raise TypeError(f"only groups can be registered, got {type(group).__name__}.")
    taken = _known(group.name)
    if taken is not None and taken is not group:
        raise ValueError(
            f"the name {group.name!r} is taken by {taken!r}, which checkpoints and files refer to. "
            "Give your group another one, such as matrix_group('MySE3', basis)."
        )
    group._prepare()
    _REGISTRY[group.name] = group
    return group


def get_group(name: str | Group) -> Group:
    """Group of the given name, such as "SE3", "SE(3)" or "SE3 x SO2"; a group is itself."""
    if isinstance(name, Group):
        return name
    group = _known(str(name))
    if group is not None:
        return group
    factors = [_known(part) for part in str(name).split(" x ")]
    known = [factor for factor in factors if factor is not None]
    if len(known) < len(factors):
        raise ValueError(unknown("group", name, _REGISTRY))
    return product(*known)


def available_groups() -> dict[str, Group]:
    """All registered groups, name -> Group."""
    return dict(_REGISTRY)


def _known(name: str) -> Group | None:
    """The registered group of a name, whose case and brackets do not count."""
    return next((x for known, x in _REGISTRY.items() if _key(known) == _key(name)), None)


def _key(name: str) -> str:
    return name.replace("(", "").replace(")", "").lower()
