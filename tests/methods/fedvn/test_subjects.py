"""FedVN as an audit runs it: which subjects, what attacks find, what is claimed, and bad input."""

from dataclasses import replace

import pytest

from fgl_secure.errors import InputError, UnknownNameError
from fgl_secure.graph import Data
from fgl_secure.graph.data import GraphSets
from fgl_secure.methods import FedVN
from fgl_secure.runtime import Phase, Recording, Role
from fgl_secure.schemes import names
from tests.error_codes import about
from tests.methods.fedvn.settings import QUICK

SHORT = replace(QUICK, epochs=2)


def test_attacks_read_what_training_sends() -> None:
    """The rounds that are recorded for attacks are those of training, bit for bit."""
    (subject,) = SHORT.plan(None, ["plaintext"]).subjects
    trained = subject.train(recording=Recording.everything(2))
    (run,) = subject.runs(trained)
    sent = [each.views(Role.SERVER).messages(Phase.VECTORS) for each in (trained.transcript, run.transcript)]
    assert [len(batches) for batches in sent] == [4, 4]
    for first, second in zip(*sent, strict=True):
        assert first.payload is not None
        assert second.payload is not None
        assert first.payload.tobytes() == second.payload.tobytes()


def test_demonstrates_two_schemes_and_takes_any() -> None:
    """Without a name, plaintext and pairwise masking; every staged scheme by name."""
    assert tuple(subject.name for subject in QUICK.plan().subjects) == FedVN.demonstrated
    assert tuple(subject.name for subject in QUICK.plan(None, names("server")).subjects) == tuple(names("server"))


@pytest.mark.parametrize(
    ("scheme", "message"),
    [
        ("magic", "scheme"),
        ("secmp", "scheme"),
        ("neighbours=secmp", "scheme"),
        ("pairwise-masking[threshold=1]", "threshold"),
        ("plaintext[T=9]", "parameter of plaintext"),
    ],
)
def test_schemes_that_do_not_serve_the_server_are_refused(scheme: str, message: str) -> None:
    with pytest.raises(InputError, check=about(message)):
        QUICK.plan(None, [scheme])


def test_clients_have_many_graphs() -> None:
    """A single graph, dealt to silos or ready, is not what FedVN is trained on; sets that there are not, neither."""
    for data in (Data(), QUICK.plan().graph):
        with pytest.raises(InputError, check=about("data")):
            QUICK.plan(data)
    for name, kind in (("cora", InputError), ("corral", UnknownNameError)):
        with pytest.raises(kind, check=about("graph set")):
            QUICK.plan(GraphSets(name))
