"""Positive controls by name: runs that attacks must break, or finding nothing elsewhere would mean nothing.

A method has a mapping of those that it makes. Packages, this one included, register such mappings by entry points of
group `fgl_secure.controls`; the same mapping may come both ways.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from fgl_secure import plugins
from fgl_secure.auditing.recorded_run import RecordedRun
from fgl_secure.errors import InputError, UnknownNameError

GROUP = "fgl_secure.controls"
"""Of entry points, each of which names a mapping from names to functions that make a run."""

Makers = Mapping[str, Callable[[], RecordedRun]]


def control(name: str, makers: Iterable[Makers] = ()) -> RecordedRun:
    """The run of a name.

    Args:
        name: on the card of an attack.
        makers: what methods make; installed packages are asked for other names.

    Raises:
        UnknownNameError: no method and no installed package makes it.
        InputError: two packages make different runs of that name, or an entry point names no mapping.
    """
    controls, makers = dict[str, Callable[[], RecordedRun]](), tuple(makers)
    # installed packages are loaded, with all that they import, for names that methods do not make alone
    for item in makers if any(name in item for item in makers) else (*makers, *_installed_controls()):
        twice = next((one for one in item if controls.get(one, item[one]) is not item[one]), None)
        if twice is not None:
            raise InputError(f"control must be made by one package; found two for {twice}")
        controls.update(item)
    if name not in controls:
        raise UnknownNameError("control", name, tuple(controls))
    return controls[name]()


def _installed_controls() -> Iterable[Makers]:
    for point in plugins.installed_plugins(GROUP):
        makers = plugins.load_plugin(point)
        if not isinstance(makers, Mapping):
            raise InputError(f"entry point {point.name} of {GROUP} must name a mapping; found {point.value}")
        yield makers
