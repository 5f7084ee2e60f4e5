"""Finished runs in a file, a line each: who was cut short goes on there, and nothing is run twice.

A line is one JSON object: `run` says what was run, with every option, the seed, and the version and sources of this
package; `found` is what came of it, `seconds` how long it took. A line is written at once and forced to disk, so a
process that is killed leaves whole lines and at most one that is torn, which is skipped. A run is taken from the file
where all of its `run` is equal; lines of other options are left alone, and said to be.
"""

from __future__ import annotations

import gc
import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from statistics import fmean
from time import perf_counter

from fgl_secure import __version__
from fgl_secure.errors import InputError

Key = Mapping[str, object]
"""What was run: JSON values by name. `of` says for what, such as "reproduce hifgl-table3"."""

_HEAD = '{"run": '
"""How every line begins, torn ones as far as they go."""

_GROUPS = 3
"""Kinds of lines of other options that are told apart in words."""

_LONG = 1.0
"""Seconds of a run after which garbage is collected."""


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """One line.

    Attributes:
        key: what was run.
        found: what came of it, JSON values.
        seconds: how long it took.
    """

    key: Key
    found: object
    seconds: float


@dataclass(frozen=True, slots=True)
class Run:
    """Something to be run once.

    Attributes:
        key: all that its outcome depends on.
        name: in words.
        like: what its time depends on most, first things first, for estimates.
        work: runs it; gives JSON values.
    """

    key: Key
    name: str
    like: tuple[str, ...]
    work: Callable[[], object]


class Watch:
    """What is told of runs; this one tells no party."""

    def note(self, text: str) -> None:
        """Something about the file of runs, a sentence."""

    def on_start(self, done: int, total: int, name: str) -> None:
        """Before each run: how many are done, of how many, and its name; once more at the end, without one."""

    def on_finish(self, entry: LedgerEntry, name: str, rest: str) -> None:
        """After each run: what came of it, its name, and what remains, in words."""


class RunLedger:
    """The finished runs of a file.

    Attributes:
        error: what stood in the way of the first line that couldn't be written; runs go on without.

    Args:
        path: of the file, which is made with its folder at the first run; None keeps runs in memory alone.

    Raises:
        InputError: the file holds something else, or can't be read or written.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.error: InputError | None = None
        self._path = path
        self._entries: dict[str, LedgerEntry] = {}
        self._torn = 0
        if path is not None:
            # Refuses a file that runs of hours could not be written to; makes nothing.
            try:
                existing = next(place for place in (path, *path.absolute().parents) if place.exists())
                able = existing.is_file() if existing == path else existing.is_dir()
                result = "it" if existing == path else str(existing)
                reason = "" if able and os.access(existing, os.R_OK | os.W_OK) else f"{result} is not, name another"
            except OSError as error:
                reason = str(error)
            if reason:
                raise InputError(f"runs must be a file that can be made, read and written; found {path} ({reason})")
            for entry in self._read(path):
                self._entries.setdefault(_text(entry.key), entry)

    def find(self, key: Key) -> LedgerEntry | None:
        """The run of this key; None where it isn't there."""
        return self._entries.get(_text(key))

    def add(self, key: Key, figures: object, seconds: float) -> LedgerEntry:
        """Writes one finished run; see `error`."""
        line = json.dumps({"run": dict(key), "found": figures, "seconds": seconds}, ensure_ascii=False)
        entry = _entry(line)
        assert entry is not None, "what was written can be read"
        self._entries[_text(entry.key)] = entry
        if self._path is not None and self.error is None:
            try:
                _append(self._path, f"{line}\n".encode())
            except OSError as error:
                self.error = InputError(f"runs must be a file that takes finished runs; found {self._path} ({error})")
        return entry

    def notes(self, keys: Sequence[Key]) -> Iterator[str]:
        """What a reader of the file has to know: which lines aren't used, and why.

        Args:
            keys: of all runs that are wanted.
        """
        if self._torn:
            yield f"{self._path}: {self._torn} torn {'line is' if self._torn == 1 else 'lines are'} skipped"
        wanted = {_text(key) for key in keys}
        kinds = {key.get("of") for key in keys}
        others = [e.key for text, e in self._entries.items() if text not in wanted and e.key.get("of") in kinds]
        groups = Counter(_difference(key, keys) for key in others)
        for words, count in groups.most_common(_GROUPS):
            yield f"{self._path}: {count} {'run is' if count == 1 else 'runs are'} not used, of {words}"
        if len(groups) > _GROUPS:
            yield f"{self._path}: {sum(groups.values())} runs are not used, all together"

    def _read(self, path: Path) -> Iterator[LedgerEntry]:
        try:
            text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
        except OSError as error:
            raise InputError(f"runs must be a file that can be read; found {path} ({error})") from error
        for number, line in enumerate(text.split("\n"), 1):
            entry = _entry(line) if line else None
            if entry is not None:
                yield entry
            elif line and not (line.startswith(_HEAD) or _HEAD.startswith(line)):
                raise InputError(
                    f"runs must be a file of finished runs, or not be there; line {number} of {path} is none"
                )
            elif line:
                self._torn += 1


def complete_runs(runs: Sequence[Run], ledger: RunLedger, watch: Watch | None = None) -> list[LedgerEntry]:
    """Runs what isn't in the ledger yet, and writes it there.

    Args:
        runs: in order.
        ledger: where finished ones are.
        watch: is told of each.

    Returns:
        What came of each run, in their order.
    """
    watch = watch or Watch()
    for note in ledger.notes([run.key for run in runs]):
        watch.note(note)
    waiting = [run for run in runs if ledger.find(run.key) is None]
    if len(waiting) < len(runs):
        watch.note(f"{len(runs) - len(waiting)} of {len(runs)} runs are done already, and are not run again")
    while waiting:
        run, *waiting = waiting
        watch.on_start(len(runs) - len(waiting) - 1, len(runs), run.name)
        start = perf_counter()
        result = run.work()
        seconds = perf_counter() - start
        if seconds > _LONG:
            gc.collect()  # what a run trained with refers to itself, and may be gigabytes when the next one begins
        entry = ledger.add(run.key, result, seconds)
        watch.on_finish(entry, run.name, _remaining_time(waiting, runs, ledger))
    watch.on_start(len(runs), len(runs), "")
    entries = [ledger.find(run.key) for run in runs]
    return [entry for entry in entries if entry is not None]


@cache
def provenance(*others: Path) -> Mapping[str, str]:
    """What runs come from beside their options: the version of this package, and a digest of its sources.

    Args:
        others: folders of other packages whose sources count too.
    """
    digest = sha256()
    for root in (Path(__file__).parent, *others):
        for folder, folders, names in os.walk(root, followlinks=True):
            folders.sort()
            for path in (Path(folder, name) for name in sorted(names) if name.endswith((".py", ".csv"))):
                digest.update(f"{path.relative_to(root).as_posix()}\0".encode() + path.read_bytes() + b"\0")
    return {"version": __version__, "source": digest.hexdigest()[:16]}


def clock_text(seconds: float) -> str:
    """Minutes and seconds, `2:05`, or hours too."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _remaining_time(waiting: Sequence[Run], runs: Sequence[Run], ledger: RunLedger) -> str:
    """How many of the runs are done, and how long the others take at the pace of those most like them."""
    taken = [(run.like, entry.seconds) for run in runs if (entry := ledger.find(run.key)) is not None]
    left = sum(_expected_seconds(run.like, taken) for run in waiting)
    yet = f", about {clock_text(left)} left" if waiting else ""
    return f"{len(runs) - len(waiting)} of {len(runs)}{yet}"


def _expected_seconds(like: tuple[str, ...], taken: Sequence[tuple[tuple[str, ...], float]]) -> float:
    """Seconds: the mean over the runs that share the longest beginning of `like`."""
    for length in range(len(like), -1, -1):
        near = [seconds for other, seconds in taken if other[:length] == like[:length]]
        if near:
            return fmean(near)
    return 0.0


def _difference(key: Key, wanted: Sequence[Key]) -> str:
    """In what a key differs from the nearest of those that are wanted."""

    def differing(other: Key) -> list[str]:
        return [name for name in {**key, **other} if key.get(name) != other.get(name)]

    near = min(wanted, key=lambda other: len(differing(other)))
    return ", ".join(
        f"{name} {_format_value(key.get(name))} where {_format_value(near.get(name))} is asked for"
        for name in differing(near)
    )


def _format_value(value: object) -> str:
    return "none" if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _text(key: Key) -> str:
    return json.dumps(key, sort_keys=True, ensure_ascii=False)


def _entry(line: str) -> LedgerEntry | None:
    """The entry of a line; None of one that is torn."""
    try:
        made = json.loads(line)
        return LedgerEntry(dict(made["run"]), made["found"], float(made["seconds"]))
    except (ValueError, TypeError, KeyError):
        return None


def _append(path: Path, line: bytes) -> None:
    """Writes a line in one piece to the end of the file, and to disk; behind a torn line it begins a new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        size = os.fstat(file).st_size
        if size and os.pread(file, 1, size - 1) != b"\n":
            line = b"\n" + line
        if os.write(file, line) != len(line):
            raise OSError("no space is left for a line")
        with suppress(OSError):  # a file system that can't force has it written all the same
            os.fsync(file)
    finally:
        os.close(file)
