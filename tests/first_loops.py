"""The loops that a first epoch calls, for `fgl_secure.ahead`: `python -m tests.first_loops` lists them anew.

Those of modules that take PyTorch are left out: loading it would take the processes that compile as long as compiling.
What other processors call stays as it is listed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from typing import Any

from numba.core import event, types

from fgl_secure import ahead
from fgl_secure.cli.main import main

EPOCH = ("train", "hifgl", "--epochs", "1", "--quiet")
"""The command whose first epoch it is."""

_TAKING_TORCH = """
import importlib, sys
sys.modules["torch"] = None
for module in sys.argv[1:]:
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as error:
        assert error.name == "torch"
        print(module)
"""


class Timed(event.Listener):  # type: ignore[misc]  # numba ships no types
    """Notes how long numba compiles what is called first, and what that is for."""

    def __init__(self) -> None:
        self.begun: list[float] = []
        self.seconds: dict[tuple[Any, Any], float] = {}

    def on_start(self, event: Any) -> None:  # noqa: ARG002
        self.begun.append(time.process_time())

    def on_end(self, event: Any) -> None:
        seconds = time.process_time() - self.begun.pop()
        if not self.begun:
            self.seconds[event.data["dispatcher"], event.data["args"]] = seconds


def spelled(kind: Any) -> str:
    """A type as numba reads it."""
    if isinstance(kind, types.Array):
        assert kind.aligned, "all arrays of this package are"
        dtype = "boolean" if kind.dtype == types.boolean else str(kind.dtype)
        return f"Array({dtype}, {kind.ndim}, '{kind.layout}'{'' if kind.mutable else ', True'})"
    if isinstance(kind, types.UniTuple):  # type: ignore[attr-defined]  # numba ships no types
        return f"UniTuple({spelled(kind.dtype)}, {kind.count})"
    return "boolean" if kind == types.boolean else str(kind)


def loops() -> Iterator[tuple[str, str, Any]]:
    """Module, name and kernel of every loop of this package that is loaded."""
    for name, module in sorted(sys.modules.items()):
        if name.startswith("fgl_secure."):
            for attribute, value in vars(module).items():
                if hasattr(value, "kernel") and getattr(value, "__module__", "") == name:
                    yield name, attribute, value.kernel


def called() -> set[tuple[str, str, str]]:
    """Module, loop and types of what was called in this process."""
    return {
        (module, loop, ", ".join(map(spelled, signature)))
        for module, loop, kernel in loops()
        for signature in kernel.signatures
    }


def taking_torch(modules: Iterable[str]) -> set[str]:
    """Those that cannot be loaded without PyTorch."""
    command = [sys.executable, "-c", _TAKING_TORCH, *sorted(modules)]
    return set(subprocess.run(command, capture_output=True, check=True, text=True).stdout.split())


def found() -> list[ahead.Listed]:
    """Runs the epoch here, and lists the loops that were compiled for it."""
    timed = Timed()
    event.register("numba:compile", timed)
    assert main(EPOCH) == 0
    names = {kernel: (module, loop) for module, loop, kernel in loops()}
    listed = [
        ahead.Listed(round(seconds, 1), *names[kernel], ", ".join(map(spelled, arguments)))
        for (kernel, arguments), seconds in timed.seconds.items()
        if kernel in names
    ]
    taking = taking_torch({each.module for each in listed})
    without = {each.module for each in listed} - taking
    modules = list(dict.fromkeys(each.module for each in listed if each.module in without))
    return sorted((each for each in listed if each.module in without), key=lambda each: modules.index(each.module))


if __name__ == "__main__":
    if "NUMBA_CACHE_DIR" not in os.environ or sys.argv[1:] != ["here"]:
        with tempfile.TemporaryDirectory() as folder:
            settings = {**os.environ, "NUMBA_CACHE_DIR": folder, ahead.SWITCH: "0"}
            sys.exit(subprocess.call([sys.executable, "-m", "tests.first_loops", "here"], env=settings))
    elsewhere = [each for each in ahead.listed(ahead.LIST) if not ahead.is_called(each.module)]
    lines = [f"{each.seconds} {each.module} {each.loop} {each.types}\n" for each in (*found(), *elsewhere)]
    ahead.LIST.write_text("".join(lines), encoding="utf-8")
    print(json.dumps({"loops": len(lines)}))
