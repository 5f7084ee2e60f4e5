"""A server that replaces keys reads what unsigned silos send each other, and is refused by signed ones."""

import stat
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import pytest

from fgl_secure.coins import SystemCoins
from fgl_secure.errors import InputError, ProtocolError
from fgl_secure.methods import FedStruct
from fgl_secure.protocols.identity import Identities, Identity
from fgl_secure.training.job import Job
from fgl_secure.training.processes.process import Post
from fgl_secure.training.processes.program_run import ProgramRun
from fgl_secure.training.processes.sums import CONFIRMATION, deliver_posts
from tests.training.processes.middle import Middle
from tests.training.processes.runs import SESSION
from tests.training.processes.test_lying_server import SILOS, job_of

METHOD, SCHEME = FedStruct(epochs=1, hops=1), "pairwise-masking"


def signing(parties: int) -> list[tuple[Identity, Identities]]:
    own = [Identity.generate(SystemCoins()) for _ in range(parties)]
    known = Identities({number: identity.public for number, identity in enumerate(own)})
    return [(identity, known) for identity in own]


def run_through(run: ProgramRun, middle: Middle, job: Job, identities: list[tuple[Identity, Identities]]) -> None:
    """A run whose messages go through a server in the middle; without identities it is unsigned."""
    shares = [job.share(silo) for silo in range(SILOS)]
    given: list[tuple[Identity, Identities] | tuple[None, None]] = [*identities] or [(None, None)] * run.parties
    group = {
        number: run.party(number, SESSION, partial(shares.__getitem__, number), own, known)
        for number, (own, known) in enumerate(given)
    }
    server, posts = run.server(SESSION), dict[int, dict[int, bytes]]()
    while any(group[silo].program.report is None for silo in range(SILOS)):
        sent: Mapping[int, Post] = {number: party.turn(posts.get(number, {})) for number, party in group.items()}
        posts = deliver_posts(middle.passed(sent), server)


def test_a_server_in_the_middle_reads_unsigned_silos_alone() -> None:
    """Unsigned, the run ends well and the server has every parcel; signed, it is refused before any is sent."""
    job = job_of(METHOD, SCHEME)
    run = ProgramRun(job.complete_task, SILOS)
    reading, refused = (Middle(run.parties, SESSION) for _ in range(2))
    run_through(run, reading, job, [])
    assert {parcel.phase for parcel in reading.read} > {CONFIRMATION}
    with pytest.raises(ProtocolError):
        run_through(run, refused, job, signing(run.parties))
    assert refused.read == []


def test_identities_that_do_not_fit_are_refused() -> None:
    """One without the other, or another party's; nothing is made."""
    job = job_of(METHOD, SCHEME)
    run, (own, known) = ProgramRun(job.complete_task, SILOS), signing(SILOS)[0]
    for number, given in ((0, (own, None)), (0, (None, known)), (1, (own, known))):
        with pytest.raises(InputError):
            run.party(number, SESSION, lambda: job.share(0), *given)


def test_identities_go_to_files_and_come_back(tmp_path: Path) -> None:
    """A secret one to a new file for its owner alone; public ones in the order of parties."""
    own, known = signing(SILOS)[1]
    own.save(tmp_path / "own")
    known.save(tmp_path / "all")
    assert Identity.load(tmp_path / "own").public == own.public
    assert Identities.load(tmp_path / "all") == known
    assert stat.S_IMODE((tmp_path / "own").stat().st_mode) == 0o600
    with pytest.raises(InputError):
        own.save(tmp_path / "own")
    with pytest.raises(InputError):
        Identity.load(tmp_path / "all")


@pytest.mark.parametrize("text", ["", "00", "x" * 64, "00" * 32 + "\n" + "00" * 32, "\u00e9"])
def test_files_of_something_else_are_refused(tmp_path: Path, text: str) -> None:
    """None, too short, no digits, one key twice, or other letters; and a file that is not there."""
    (tmp_path / "all").write_text(text, encoding="utf-8")
    with pytest.raises(InputError):
        Identities.load(tmp_path / "all")
    with pytest.raises(InputError):
        Identities.load(tmp_path / "none")
