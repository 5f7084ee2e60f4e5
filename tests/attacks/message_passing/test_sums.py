from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fgl_secure.attacks.message_passing.sums import UNKNOWN, seen_sums
from fgl_secure.protocols.plaintext import Path, Plaintext
from fgl_secure.protocols.relay_coded import Profile, RelayCoded
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.protocols.secmp import SecretMessagePassing
from fgl_secure.runtime import Role
from tests.attacks.recorded import Run, random_graph, record, star_and_path, whole_numbers

SCHEMES: tuple[Scheme, ...] = (
    Plaintext(),
    Plaintext(Path.SILO),
    SecretMessagePassing(),
    SecretMessagePassing(T=3),
    RelayCoded(k_min=1, profile=Profile.SHOWN),
    RelayCoded(T=2, R=4, k_min=1, profile=Profile.SHOWN),
    RelayCoded(k_min=1, profile=Profile.HIDDEN, max_degree=8),  # room for all neighbours that nine devices may have
)
EVERY = pytest.mark.parametrize("scheme", SCHEMES, ids=lambda each: f"{each.name}")


def expected(run: Run) -> dict[int, tuple[int, tuple[float, ...]]]:
    """By target: how many rows its sum has, and the sum of what its neighbours put in."""
    (secret,) = run.transcript.secrets()
    first, modulus = int(run.transcript.parties.ids(Role.DEVICE)[0]), run.public.modulus
    sums = {}
    for target in np.unique(run.graph.edges[1]).tolist():
        rows = secret.values[run.graph.edges[0, run.graph.edges[1] == target]]
        total = rows.astype(np.int64).sum(axis=0) % modulus if modulus else rows.sum(axis=0)
        sums[first + target] = (len(rows), tuple(total.tolist()))
    return sums


@EVERY
@given(seed=st.integers(0, 10_000))
@settings(max_examples=20)
def test_devices_have_the_sums_of_every_scheme(scheme: Scheme, seed: int) -> None:
    """Whichever way a sum is computed, its target ends up with it, and with the number of its rows but by way of silos.

    Padding counts as rows under a hidden graph.
    """
    graph = random_graph(seed, directed=False, devices=9, pairs=10)
    run = record(graph, scheme, whole_numbers(9, 3, 9, seed))
    (sums,) = seen_sums(run.transcript.views(Role.DEVICE), run.public, Role.DEVICE)
    found = dict(zip(sums.targets.tolist(), map(tuple, sums.values.tolist()), strict=True))
    wanted = expected(run)
    assert {target: found[target] for target in wanted} == {target: total for target, (_, total) in wanted.items()}
    terms = dict(zip(sums.targets.tolist(), sums.terms.tolist(), strict=True))
    if scheme.name == "plaintext[path=silo]":
        assert set(terms.values()) == {UNKNOWN}
    elif not (isinstance(scheme, RelayCoded) and scheme.anonymous):
        assert {target: terms[target] for target in wanted} == {target: k for target, (k, _) in wanted.items()}


@pytest.mark.parametrize("T", [1, 2, 4])
@given(seed=st.integers(0, 10_000))
@settings(max_examples=20)
def test_silos_decode_and_count(T: int, seed: int) -> None:
    """Silos decode the sums of their devices, and their masks tell them how many rows are in each."""
    graph = random_graph(seed, directed=True, devices=9, pairs=14)
    run = record(graph, SecretMessagePassing(T=T), whole_numbers(9, 3, 9, seed))
    (sums,) = seen_sums(run.transcript.views(Role.SILO), run.public, Role.SILO)
    found = zip(sums.targets.tolist(), sums.terms.tolist(), map(tuple, sums.values.tolist()), strict=True)
    assert {target: (k, total) for target, k, total in found} == expected(run)


@pytest.mark.parametrize("scheme", [Plaintext(), Plaintext(Path.SILO), RelayCoded(k_min=1, profile=Profile.SHOWN)])
def test_other_silos_have_no_sums(scheme: Scheme) -> None:
    """Where silos decode nothing they have nothing."""
    run = record(star_and_path(), scheme, whole_numbers(9, 3, 9))
    assert seen_sums(run.transcript.views(Role.SILO), run.public, Role.SILO) == ()


def test_refused_sums_are_left_out() -> None:
    """With k_min = 3 the centre of a star of four has a sum, and nobody else."""
    run = record(star_and_path(), RelayCoded(k_min=3, profile=Profile.SHOWN), whole_numbers(9, 3, 9))
    (sums,) = seen_sums(run.transcript.views(Role.DEVICE), run.public, Role.DEVICE)
    assert sums.targets.tolist() == [int(run.transcript.parties.ids(Role.DEVICE)[0])]
    assert sums.terms.tolist() == [4]
