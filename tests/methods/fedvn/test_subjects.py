"""FedVN as an audit runs it: which subjects, what attacks find, what is claimed, and bad input."""

from dataclasses import replace

import numpy as np
import pytest

from fgl_secure.attacks.base import DataSecret
from fgl_secure.attacks.registry import attack as named
from fgl_secure.attacks.truth import VirtualNodeTruth
from fgl_secure.attacks.virtual_nodes.knowledge import VirtualSlices, client_states
from fgl_secure.coins import SimulationCoins
from fgl_secure.errors import InputError, UnknownNameError
from fgl_secure.graph import Data
from fgl_secure.graph.data import GraphSets
from fgl_secure.graph.datasets import load_set
from fgl_secure.methods import FedVN
from fgl_secure.methods.fedvn import program
from fgl_secure.methods.fedvn.audit_target import claim_of, initial_slices, recorded_rounds, secrets
from fgl_secure.methods.fedvn.preset import fedvn_preset
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.runtime import Circumstance, Phase, Recording, Role, Secret
from fgl_secure.schemes import names, server_scheme
from fgl_secure.training.parameters import flat
from tests.error_codes import about
from tests.methods.fedvn.sets import QUICK, setting, values

SHORT = replace(QUICK, epochs=2)


def test_attacks_read_what_training_sends() -> None:
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


SERVER = {Role.SERVER: 1}


def test_nothing_is_promised_in_the_clear() -> None:
    """The paper leaves open what summands tell, and that they tell something is declared."""
    claim = claim_of(Plaintext(), 5)
    assert not claim.guarantees
    assert {leak.secret for leak in claim.leaks_by_design} == {DataSecret.LABEL_SHARES, DataSecret.CLIENT_IDENTITY}


@pytest.mark.parametrize("scheme", [name for name in names("server") if name != "plaintext"])
@pytest.mark.parametrize("secret", [Secret.SUMMAND, DataSecret.LABEL_SHARES, DataSecret.CLIENT_IDENTITY])
def test_findings_about_one_client_contradict_a_scheme(scheme: str, secret: Secret) -> None:
    assert claim_of(server_scheme(scheme), 5).broken_by(secret, SERVER, Circumstance.ANY) is not None


@pytest.mark.parametrize("scheme", [name for name in names("server") if name != "plaintext"])
def test_what_the_sum_tells_is_declared(scheme: str) -> None:
    """How often a label occurs at all clients together is no contradiction."""
    claim = claim_of(server_scheme(scheme), 5)
    assert claim.broken_by(DataSecret.LABEL, SERVER, Circumstance.ANY) is None
    assert DataSecret.LABEL in {leak.secret for leak in claim.leaks_by_design}


@pytest.mark.parametrize("secret", [Secret.SUMMAND, DataSecret.LABEL_SHARES, DataSecret.CLIENT_IDENTITY])
def test_two_clients_know_each_other_s_part(secret: Secret) -> None:
    """With two clients the mean tells each of them the other's summand and all it tells, and the claim says so."""
    for clients, told in ((2, True), (3, False)):
        claim = claim_of(server_scheme("lightsecagg"), clients)
        anyhow = [leak for leak in claim.leaks_by_design if leak.circumstance is Circumstance.ANY]
        assert ((secret, Role.SILO) in {(leak.secret, leak.role) for leak in anyhow}) is told


@pytest.mark.parametrize("scheme", [name for name in names("server") if name != "plaintext"])
@pytest.mark.parametrize("secret", [DataSecret.LABEL_SHARES, DataSecret.CLIENT_IDENTITY])
@pytest.mark.parametrize("clients", [2, 5])
def test_two_clients_must_be_left(scheme: str, secret: Secret, clients: int) -> None:
    """With all others but one on its side, a server takes them from the sum: that is promised under no scheme."""
    claim = claim_of(server_scheme(scheme), clients)
    promised = [each for each in claim.guarantees if each.secret is secret]
    assert promised
    assert all(each.coalition.get(Role.SILO, 0) <= clients - 2 for each in promised)
    for coalition in ({Role.SERVER: 1, Role.SILO: clients - 1}, {Role.SILO: clients - 1}):
        assert claim.broken_by(secret, coalition, Circumstance.ANY) is None


def test_the_server_knows_what_it_hands_out_first() -> None:
    """Clients that hardly move come back with the model that the attacker knows as the first."""
    chosen = setting(learning_rate=1e-9)
    run = recorded_rounds(chosen, Plaintext(), "plaintext", "x")
    layout = run.knows(VirtualSlices)
    assert layout.start is not None
    first = client_states(run.transcript.views(Role.SERVER), layout)[0]
    np.testing.assert_allclose(first.states[:, : layout.entries], np.tile(layout.start, (3, 1)), atol=1e-6)
    assert first.weights.tolist() == pytest.approx([36 / chosen.sets.num_graphs] * 3)


def test_the_attacker_s_layout_is_the_method_s() -> None:
    """Slices and start agree with what clients share, and the last weight lies before the last bias."""
    chosen = setting()
    job = chosen.job(Plaintext())
    client = job.open(job.channel(SimulationCoins(0))).programs[0]
    assert isinstance(client, program.FedVNClient)
    ours = initial_slices(chosen)
    assert ours.start is not None
    assert np.array_equal(ours.start, flat(client.shared))
    assert np.array_equal(ours.start[ours.head_bias], flat([client.model.output.bias]))
    assert (ours.entries, ours.classes, ours.scores) == (len(flat(client.shared)), 3, 3)
    assert ours.start is not None
    spread = 1 / np.sqrt(chosen.preset.hidden)  # of initial weights and biases of a layer with so many inputs
    head = np.concatenate([ours.start[ours.head_weight], ours.start[ours.head_bias]])
    assert 0.5 * spread < np.abs(head).max() <= spread
    assert not ours.start[ours.nodes].any()


def test_shares_are_those_of_graphs_that_train() -> None:
    graphs = load_set("Motif-mini")
    honest, paper = (replace(setting(graphs), preset=fedvn_preset(name, graphs.name)) for name in ("honest", "paper"))
    for chosen, trains in ((honest, graphs.train), (paper, graphs.train | graphs.validation)):
        found = secrets(chosen)
        assert found.label_shares is not None
        assert found.population is not None
        own = np.flatnonzero(trains & (graphs.client_of == 1))
        expected = np.bincount(np.asarray(graphs.targets)[own].astype(int), minlength=3) / len(own)
        np.testing.assert_allclose(found.label_shares[1], expected)
        np.testing.assert_allclose(found.population.sum(), 1.0)


def test_values_have_no_labels_to_be_read() -> None:
    """Where graphs have values for targets, clients can be told and label shares cannot."""
    run = recorded_rounds(setting(values(), epochs=4), Plaintext(), "plaintext", "x")
    truth = run.truth(VirtualNodeTruth)
    assert (truth.label_shares, truth.population) == (None, None)
    assert run.guess(named("virtual-node-labels")) is None
    assert run.guess(named("virtual-node-population")) is None
    guess = run.guess(named("virtual-node-clients"))
    assert guess is not None
    assert run.score(named("virtual-node-clients"), guess)
