"""FedVN from the first round to the last."""

from dataclasses import replace

import numpy as np
import pytest

from fgl_secure.coins import SimulationCoins
from fgl_secure.errors import InputError
from fgl_secure.graph.datasets import load_set
from fgl_secure.graph.graph_sets import GraphSet
from fgl_secure.graph.partition import SplitMasks
from fgl_secure.methods.fedvn.preset import FedVNPreset, Statistics, fedvn_preset
from fgl_secure.methods.fedvn.program import clients_of, first_model
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.runtime import Channel, Party, Phase, Recording, Role
from fgl_secure.schemes import server_scheme
from fgl_secure.training.loop import TrainingResult
from fgl_secure.training.parties import hierarchy_of
from tests.error_codes import about
from tests.methods.fedvn.sets import bonded, random_set

HONEST = replace(fedvn_preset("honest", "random"), hidden=6, virtual_nodes=3, batch=4, epochs=2)
PAPER = replace(fedvn_preset("paper", "random"), hidden=6, virtual_nodes=3, batch=4, epochs=2, floor=0.01)


def run(
    sets: GraphSet, preset: FedVNPreset = HONEST, scheme: str | None = None, seed: int = 0
) -> tuple[TrainingResult, Channel]:
    """A whole training run that keeps everything."""
    channel = Channel(hierarchy_of(sets.union()), SimulationCoins(7), Recording.everything())
    chosen = server_scheme(scheme or "plaintext")
    return clients_of(sets, chosen, preset, seed=seed).train(channel), channel


def test_equal_seeds_give_equal_bits() -> None:
    """Losses and accuracies repeat; another seed gives others."""
    sets = random_set()
    first, second, other = (run(sets, seed=seed)[0] for seed in (0, 0, 1))
    assert first.losses == second.losses
    assert first.accuracy == second.accuracy
    assert first.losses != other.losses


@pytest.mark.parametrize("sets", [random_set(), bonded(random_set(values=True))], ids=["labels", "values, bonds"])
@pytest.mark.parametrize("scheme", ["pairwise-masking", "ckks-shared-key"])
def test_secured_training_is_training_in_the_clear(scheme: str, sets: GraphSet) -> None:
    """Losses agree to the last bit, and no client's row is among the messages."""
    (clear, open_channel), (secured, channel) = run(sets), run(sets, scheme=scheme)
    assert secured.losses == clear.losses
    assert secured.accuracy == clear.accuracy
    view = channel.transcript.view([Party(Role.SERVER, 0)])
    assert not list(view.messages(Phase.VECTORS))
    assert list(open_channel.transcript.view([Party(Role.SERVER, 0)]).messages(Phase.VECTORS))


def test_types_of_edges_add_embeddings_to_what_is_shared_and_change_the_model() -> None:
    """Each layer has an embedding per type; edges of one type differ from edges without types by the ReLU alone."""
    sets = random_set(values=True)
    typed, *others = (run(each) for each in (bonded(sets), bonded(sets, types=1), sets))
    lengths = [_largest(channel) for _, channel in (typed, *others)]
    assert [first - lengths[-1] for first in lengths] == [
        HONEST.layers * HONEST.hidden * 8 * types for types in (3, 1, 0)
    ]
    assert len({outcome.losses for outcome, _ in (typed, *others)}) == 3


def _largest(channel: Channel) -> int:
    return max(batch.item_bytes for batch in channel.transcript.messages if batch.phase is Phase.VECTORS)


def test_a_run_selects_a_round_of_its_own_under_both_presets() -> None:
    for preset in (HONEST, PAPER):
        outcome, _ = run(random_set(constant=False), preset)
        assert 0 <= outcome.selected_round <= preset.epochs
        shares = [share for share in outcome.accuracy.per_silo if share is not None]
        assert len(shares) == len(outcome.accuracy.per_silo)
        assert all(0 <= share <= 1 for share in shares)
        assert outcome.accuracy.test == pytest.approx(np.mean(shares))


def test_what_goes_up_comes_down_as_a_mean_or_sum() -> None:
    """Counts in every round and at the end, and in every round what is shared, the loss and the weight."""
    _, channel = run(random_set())
    model = first_model(2, 3, HONEST, 0)
    entries = sum(parameter.numel() for parameter in model.parameters()) + 3 * 6 + 3 + 2
    for phase, item in ((Phase.VECTORS, 8), (Phase.MODEL, 4)):
        sent = [batch for batch in channel.transcript.messages if batch.phase is phase]
        assert [batch.item_bytes for batch in sent] == [item * n for n in (4, entries, 4, entries, 4)]
        assert [batch.messages for batch in sent] == [3] * 5


@pytest.mark.parametrize("statistics", Statistics)
def test_odd_graphs_do_no_harm(statistics: Statistics) -> None:
    """Single nodes, graphs without edges, batches of one graph and a class that nobody has: losses stay finite."""
    single = GraphSet.from_arrays(
        "single",
        np.ones((6, 1)),
        np.zeros((2, 0), dtype=np.int64),
        [0, 1, 2, 3, 4, 4],
        [0, 2, 2, 0, 2],
        [0, 0, 1, 1, 1],
        SplitMasks(*(np.array(mask, dtype=bool) for mask in ([1, 0, 1, 1, 0], [0, 0, 0, 0, 1], [0, 1, 0, 0, 0]))),
        "none",
    )
    outcome, _ = run(single, replace(HONEST, statistics=statistics))
    assert np.isfinite(outcome.losses).all()
    assert outcome.accuracy.per_silo[1] is None


def test_motif_mini_is_learnt_better_than_by_chance() -> None:
    """With larger steps and no dropout training graphs are learnt, whose loss falls well below log 3."""
    sets = load_set("Motif-mini", 0)
    preset = replace(fedvn_preset("paper", "Motif-mini"), epochs=15, learning_rate=0.2, dropout=0.0)
    preset = replace(preset, hidden=24, virtual_nodes=4)
    channel = Channel(hierarchy_of(sets.union()), SimulationCoins(0))
    assert clients_of(sets, Plaintext(), preset).train(channel).losses[-1] < 0.9 * np.log(3)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("virtual_nodes", 0),
        ("epochs", 0),
        ("layers", 0),
        ("batch", 0),
        ("dropout", 1.0),
        ("temperature", 0.0),
        ("learning_rate", float("nan")),
        ("contrast", -1.0),
    ],
)
def test_numbers_out_of_range_are_refused(field: str, value: float) -> None:
    """The message names the argument and the value: M = 0 is FedAvg and has to be asked for as that."""
    with pytest.raises(InputError, check=about(field)):
        replace(HONEST, **{field: value})  # type: ignore[arg-type]


def test_presets_are_the_public_code_s_and_the_paper_s() -> None:
    """Rates of section 6.1 and the public code's M, lambda_1 and lambda_2; choices of a run change one number."""
    paper = fedvn_preset("paper", "CMNIST")
    assert [fedvn_preset("paper", f"Motif-{domain}").epochs for domain in ("basis", "size")] == [100, 200]
    assert (paper.learning_rate, fedvn_preset("paper", "Motif-basis").learning_rate) == (0.01, 0.001)
    assert (paper.virtual_nodes, paper.decoupling, paper.contrast, paper.temperature) == (20, 0.1, 1.0, 0.1)
    assert paper.with_given(epochs=3, virtual_nodes=5) == replace(paper, epochs=3, virtual_nodes=5)
    assert paper.with_given(epochs=None, virtual_nodes=None) == paper
