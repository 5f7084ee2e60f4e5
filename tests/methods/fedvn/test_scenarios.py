"""What attackers of FedVN know beside their views, and what they are scored on."""

from dataclasses import replace

import numpy as np
import pytest

from fgl_secure.attacks.registry import attack as named
from fgl_secure.attacks.truth import VirtualNodeTruth
from fgl_secure.attacks.virtual_nodes.knowledge import VirtualSlices, client_states
from fgl_secure.coins import SimulationCoins
from fgl_secure.graph.datasets import load_set
from fgl_secure.methods.fedvn.audit_runs import handed_out, recorded_rounds, secrets
from fgl_secure.methods.fedvn.preset import fedvn_preset
from fgl_secure.methods.fedvn.program import FedVN
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.runtime import Role
from fgl_secure.training.parameters import flat
from tests.methods.fedvn.settings import setting, values


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
    client = job.opened(job.channel(SimulationCoins(0))).programs[0]
    assert isinstance(client, FedVN)
    ours = handed_out(chosen)
    assert ours.start is not None
    assert np.array_equal(ours.start, flat(client.shared))
    assert np.array_equal(ours.start[ours.head_bias], flat([client.model.output.bias]))
    assert (ours.entries, ours.classes, ours.scores) == (len(flat(client.shared)), 3, 3)
    assert ours.start is not None
    spread = 1 / np.sqrt(chosen.preset.hidden)  # of initial weights and biases of a layer with so many inputs
    head = np.concatenate([ours.start[ours.head_weight], ours.start[ours.head_bias]])
    assert 0.5 * spread < np.abs(head).max() <= spread
    assert not ours.start[ours.nodes].any()


def test_steps_follow_the_number_of_training_graphs() -> None:
    """The weight that a client sends tells how many batches it has."""
    chosen = setting(batch=10, local_epochs=2)
    work = handed_out(chosen).work
    assert work is not None
    assert work.steps(36 / chosen.sets.num_graphs) == 8


def test_shares_are_those_of_graphs_that_train() -> None:
    """Where validation graphs are trained on, they count as well."""
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
