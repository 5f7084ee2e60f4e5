"""A method as one silo runs it, and programs of all silos in one process: a thread each, of which one runs at a time.

A thread has its turn until its program makes a call, or ends; then the next silo's has it. When all have made the call
it is answered, in the thread of the caller. So the order of all that happens is fixed, whatever the threads' timing.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import torch

from fgl_secure.errors import ProtocolError
from fgl_secure.runtime.packing import Arrays, under, within
from fgl_secure.training.calls import AnswerCall, Call
from fgl_secure.training.collectives import Collectives
from fgl_secure.typing import Array


class Program(ABC):
    """A method as one silo runs it, in rounds; all silos run the same one.

    A round depends on nothing but the program's state, its number and what collectives give, so that it can be run
    again up to the call that is due, in another process.

    Args:
        comm: the collectives of the run; `comm.silo` is what the silo holds.

    Attributes:
        kept: arrays that change from round to round, by name. Who keeps more than arrays extends `state` and `restore`.
    """

    def __init__(self, comm: Collectives) -> None:
        self.comm, self.silo = comm, comm.silo
        self.kept: dict[str, Array] = {}

    def begin(self) -> None:  # noqa: B027  # most have nothing to do
        """What comes before the first round; nothing unless a method has something."""

    @abstractmethod
    def round(self, number: int) -> bool:
        """One round.

        Args:
            number: of the round, from 0.

        Returns:
            Whether there is another one; the same for all silos.
        """

    @property
    @abstractmethod
    def report(self) -> dict[str, Array]:
        """What was found, as arrays by name."""

    def state(self) -> dict[str, Array]:
        """All that changes from round to round, as arrays by name; secret, for this silo alone."""
        return under("kept", self.kept)

    def restore(self, state: Arrays) -> None:
        """Goes on where a state was taken."""
        self.kept = within("kept", state)


_Result = TypeVar("_Result")

_Work = Callable[[AnswerCall], _Result]
"""Does a silo's work, given what makes its calls."""
_Answer = Callable[[list[Call]], Sequence[Any]]
"""What every silo gets for a call that all have made."""


class _StopThread(BaseException):  # no error: the work is not wanted any more
    """Ends a thread whose work is given up."""


class Strand(Generic[_Result]):
    """A silo's work, which stops at each of its calls.

    Args:
        work: what is done.

    Attributes:
        call: the one that waits for an answer; None before the first and when the work is done.
    """

    def __init__(self, work: _Work[_Result]) -> None:
        self._work = work
        self._go, self._came = threading.Lock(), threading.Lock()  # one turn each: a semaphore takes ten times as long
        self._go.acquire()
        self._came.acquire()
        self._reply: Any = None
        self._result: list[_Result] = []
        self._error: BaseException | None = None
        self._stopped = False
        self.call: Call | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def go_on(self, reply: Any = None) -> None:
        """Lets it work until its next call, or to its end.

        Args:
            reply: what the call gives; an exception is raised there.

        Raises:
            Exception: whatever the work raises.
        """
        self._reply, self.call = reply, None
        del reply
        self._go.release()
        self._came.acquire()
        if self._error is not None:
            raise self._error

    @property
    def result(self) -> _Result:
        """What the work gave, once it is done."""
        return self._result[0]

    def stop(self) -> None:
        """Gives the work up; nothing of it happens any more."""
        if self._thread.is_alive():
            self._stopped = True
            self._go.release()
            self._thread.join()

    def _run(self) -> None:
        try:
            self._wait()
            if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]  # torch leaves it untyped
                torch.cuda.synchronize()  # gives the thread the device's context, without which cuBLAS warns
            self._result.append(self._work(self._ask))
        except _StopThread:
            return
        except BaseException as error:  # it is raised where the work was let go on
            self._error = error
        self._came.release()

    def _ask(self, call: Call) -> Any:
        self.call = call
        self._came.release()
        self._wait()
        reply, self._reply = self._reply, None  # what the work is done with is not kept here
        if isinstance(reply, BaseException):
            raise reply
        return reply

    def _wait(self) -> None:
        self._go.acquire()
        if self._stopped:
            raise _StopThread


def in_lockstep(works: Sequence[_Work[_Result]], answer: _Answer) -> list[_Result]:
    """Does the work of all silos, with all their calls answered together.

    Args:
        works: by silo.
        answer: answers a call that all have made; what it raises is raised in every silo's call.

    Returns:
        What each work gave.

    Raises:
        ProtocolError: silos make different calls, or some end while others call.
        Exception: what a work raises.
    """
    strands = [Strand(work) for work in works]
    replies: Sequence[Any] = [None] * len(strands)
    try:
        while True:
            pending, replies = list(replies), ()
            for strand in strands:
                strand.go_on(pending.pop(0))
            calls = _alike([strand.call for strand in strands])
            if not calls:
                return [strand.result for strand in strands]
            replies = _answer_calls(calls, answer)
            del calls  # what was called with may be large, and is done with
    finally:
        for strand in strands:
            strand.stop()


def _alike(calls: list[Call | None]) -> list[Call]:
    """The calls, which must be the same for all silos; none when all are done."""
    made = [call for call in calls if call is not None]
    if made and len(made) < len(calls):
        silo = calls.index(None)
        raise ProtocolError(
            f"silos must make the same calls; found that silo {silo} is done where others call {made[0].topology}"
        )
    for silo, call in enumerate(made):
        if call.outline != made[0].outline:
            raise ProtocolError(
                f"silos must make the same calls; silo 0 calls {made[0].outline}, and silo {silo} {call.outline}"
            )
    return made


def _answer_calls(calls: list[Call], answer: _Answer) -> Sequence[Any]:
    try:
        return answer(calls)
    except Exception as error:  # programs hear of it where they called
        return [error] * len(calls)
