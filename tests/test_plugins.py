"""Entry points of other installed packages."""

import sys
from importlib.metadata import EntryPoint

import pytest

from fgl_secure import plugins
from fgl_secure.errors import InputError
from tests.error_codes import about

GROUP = "fgl_secure.nothing_yet"


def test_packages_are_looked_through_once_for_each_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """And once more where modules are looked for elsewhere."""
    looked: list[str] = []

    def found(*, group: str) -> list[EntryPoint]:
        looked.append(group)
        return [EntryPoint("one", "json:dumps", group)]

    monkeypatch.setattr(plugins, "entry_points", found)
    first = plugins.installed_plugins(GROUP)
    assert plugins.installed_plugins(GROUP) is first
    assert [point.name for point in first] == ["one"]
    assert looked == [GROUP]
    monkeypatch.setattr(sys, "path", [*sys.path, "/elsewhere"])
    plugins.installed_plugins(GROUP)
    assert looked == [GROUP, GROUP]
    plugins._installed_on.cache_clear()


def test_a_package_that_does_not_load_is_refused_by_name() -> None:
    """With its group and the cause, in one line."""
    assert plugins.load_plugin(EntryPoint("one", "json:dumps", GROUP))([]) == "[]"
    with pytest.raises(InputError, check=about(f"entry point one of {GROUP}")) as refused:
        plugins.load_plugin(EntryPoint("one", "no_such_module:dumps", GROUP))
    assert "\n" not in str(refused.value)
