"""Every way to lose all precision is warned of, by all parties that can see it; remedies give the mean."""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

from fgl_secure import SecureAggregator
from fgl_secure.aggregation.layout import TensorLayout
from fgl_secure.errors import PrecisionWarning

CLIENTS = 5
SMALL = [{"w": torch.full((3,), 1e-3 * (1 + client)), "zero": torch.zeros(2)} for client in range(CLIENTS)]
TINY = [{"w": np.full(3, 1e-30 * (1 + client))} for client in range(CLIENTS)]
"""Far below the smallest range that is found."""

WAYS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "bound 1e12": ({"bound": 1e12}, {"bound": 0.01}),
    "bound and clip": ({"bound": 1e12, "clip": True}, {"bound": 0.01, "clip": True}),
    "bound at 8 bits": ({"bound": 1e6, "precision": 8}, {"bound": 0.01, "precision": 8}),
    "weight bound at 16 bits": (
        {"bound": 0.01, "precision": 16, "weight_bound": 2.0**40},
        {"bound": 0.01, "precision": 16, "weight_bound": 1.0},
    ),
    "weights' bits": ({"bound": 64.0, "weight_fraction_bits": 28}, {"bound": 64.0, "weight_bound": 1.0}),
    "bound with k_min": ({"bound": 1e12, "k_min": 2}, {"bound": 0.01, "k_min": 2}),
    "ckks": ({"scheme": "ckks-shared-key", "bound": 1e6}, {"scheme": "ckks-shared-key", "bound": 0.01}),
    "lightsecagg": ({"scheme": "lightsecagg", "bound": 1e12}, {"scheme": "lightsecagg", "bound": 0.01}),
    "fraction bits": ({"bound": 8.0, "fraction_bits": 2}, {"bound": 8.0}),
}


def in_one_process(mappings: Sequence[Any], **settings: Any) -> Any:
    return SecureAggregator.for_clients(CLIENTS, **settings).mean(mappings)


def in_processes(mappings: Sequence[Any], **settings: Any) -> tuple[list[str], list[str]]:
    """What the server and what the clients are warned of, each a party of its own."""
    server = SecureAggregator.for_clients(CLIENTS, **settings).server_round(TensorLayout.of(mappings[0]))
    clients = [
        SecureAggregator.for_clients(CLIENTS, **settings).client_round(index, server.session, server.number)
        for index in range(CLIENTS)
    ]
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for client, mapping in zip(clients, mappings, strict=True):
            client.provide(mapping)
        while not server.is_done:
            for index, message in server.requests().items():
                server.receive(index, clients[index].reply(message))
            server.advance()
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        assert server.result is server.result
    server_texts, client_texts = (
        [str(each.message) for each in found if each.category is PrecisionWarning] for found in (seen, told)
    )
    return server_texts, client_texts


@pytest.mark.parametrize("way", WAYS)
def test_lost_precision_is_warned_of_and_the_remedy_works(way: str) -> None:
    """One warning, with the tensor; with the remedy there is none, and the mean is .003."""
    lost, mended = WAYS[way]
    with pytest.warns(PrecisionWarning, match="'w'") as found:
        in_one_process(SMALL, **lost)
    assert len(found) == 1
    mean = in_one_process(SMALL, **mended)  # a warning would be an error
    np.testing.assert_allclose(mean["w"], 0.003, rtol=0.05)


@pytest.mark.parametrize("way", ["bound 1e12", "bound at 8 bits", "ckks"])
def test_parties_of_their_own_are_warned(way: str) -> None:
    """The server of the mean, by public values alone; and each client of its own numbers."""
    lost, mended = WAYS[way]
    server, clients = in_processes(SMALL, **lost)
    assert len(server) == 1
    assert len(clients) == CLIENTS
    assert in_processes(SMALL, **mended) == ([], [])


def test_numbers_below_every_range_are_warned_of() -> None:
    """Ranges are found down to 2^-40; a bound that is given goes further."""
    with pytest.warns(PrecisionWarning, match="'w' .* give bound="):
        in_one_process(TINY)
    np.testing.assert_allclose(in_one_process(TINY, bound=1e-29)["w"], 3e-30, rtol=1e-3)


@pytest.mark.parametrize(
    "settings", [{}, {"bound": 16.0}, {"precision": 8}, {"scheme": "ckks-shared-key", "bound": 0.01}, {"k_min": 2}]
)
def test_ordinary_rounds_have_no_warning(settings: dict[str, Any]) -> None:
    """Neither tensors of zeros, nor weights of very different sizes, nor few bits that fit the numbers."""
    SecureAggregator.for_clients(CLIENTS, **settings).mean(SMALL, [1, 1, 1000, 1, 3])
    zeros = [{"w": torch.zeros(3)}] * CLIENTS
    in_one_process(zeros, **{**settings, "bound": 1e12} if "bound" in settings else settings)
    if "precision" not in settings:
        assert in_processes(SMALL, **settings) == ([], [])
