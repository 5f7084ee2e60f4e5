"""Fed2GNN with a process for each client trains what Fed2GNN in one process trains, to the last bit."""

from dataclasses import replace

import pytest

from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.fed2gnn.preset import DecoderPreset, Fed2GNNPreset, LatentPreset
from fgl_secure.methods.fed2gnn.program import clients_of
from fgl_secure.protocols.pairwise_masking import PairwiseMasking
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.relay_coded import Profile, RelayCoded
from fgl_secure.protocols.scheme import Scheme
from tests.methods.fed2gnn.small import some_digits
from tests.training.processes.runs import agree_with_one_process

SHORT = Fed2GNNPreset(
    "honest",
    epochs=2,
    neighbours=3,
    decoder=DecoderPreset(epochs=3, width=16, coordinates=8),
    latent=LatentPreset(width=16, epochs=1),
)
RUNS: dict[str, tuple[Fed2GNNPreset, Scheme, Scheme, bool]] = {
    "models masked, put down": (SHORT, Plaintext(), PairwiseMasking(), True),
    "small sums refused": (replace(SHORT, hops=3, decoded=0), Plaintext(minimum_group=2), PairwiseMasking(), False),
    "over relays": (SHORT, RelayCoded(k_min=2, profile=Profile.SHOWN), PairwiseMasking(), False),
}


@pytest.fixture(scope="module")
def graph() -> FederatedGraph:
    return some_digits(80, 3)


@pytest.mark.parametrize("name", RUNS)
def test_training_is_that_of_one_process(graph: FederatedGraph, name: str) -> None:
    """Losses, models, selected round and accuracies agree: the latent map, requests, hops, decoders and averaging."""
    preset, rows, server, put_down = RUNS[name]
    job = clients_of(graph, {"neighbours": rows, "server": server}, preset)
    agree_with_one_process(job, put_down=put_down)
