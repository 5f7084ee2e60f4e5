"""What parties draw as keys, seeds and openings leaves them in no message that anybody can read."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fgl_secure.coins import SimulationCoins
from fgl_secure.errors import ProtocolError
from fgl_secure.protocols.collective import Collective
from fgl_secure.protocols.pairwise_masking import PairwiseMasking
from fgl_secure.protocols.pairwise_masking.clients import MaskingClients
from fgl_secure.protocols.relay_coded import Profile, RelayCoded, Roles
from fgl_secure.protocols.relay_coded.devices import Devices
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.protocols.secagg.terms import SUM_FOR_RECEIVER
from fgl_secure.protocols.topology import TOPOLOGIES
from fgl_secure.runtime import Channel, LazyArray, Messages, OwnDraws, Phase, Recording, Role, Step, Transcript
from fgl_secure.runtime.transcript import Private
from fgl_secure.schemes import server_scheme
from tests.protocols.hostile import WIDTH, small
from tests.protocols.test_roles import ALL

SCHEMES: tuple[Scheme, ...] = (
    *ALL,
    RelayCoded(profile=Profile.HIDDEN, max_degree=3),
    RelayCoded(T=2, R=4, profile=Profile.SHOWN),
)
SENT = frozenset(
    {"circuit keys", "pseudonyms", "circuits", "names of circuits", "pseudonyms of groups", SUM_FOR_RECEIVER}
)
"""What owners of circuits draw for relays, which are sent it, sealed; and sums that are sent under masks."""
PART = 16


class Telling(Devices):
    """Senders that put their private keys beside the public ones."""

    def step(self) -> Iterable[Messages]:
        for messages in super().step():
            fields: dict[str, NDArray[Any]] = dict(messages.fields)
            if messages.phase is Phase.KEYS:
                fields["seed"] = self._agreement._private
            yield replace(messages, fields=fields)


class Answering(MaskingClients):
    """Clients that put the seeds of their own masks beside their keys."""

    def _publish(self, which: NDArray[np.int64]) -> Iterable[Messages]:
        for messages in super()._publish(which):
            yield replace(messages, fields={**messages.fields, "seed": self._secrets[which, 2]})


def transcripts(scheme: Scheme) -> Iterator[Transcript]:
    """One sum of each topology that a scheme serves."""
    for name in TOPOLOGIES:
        parties, topology = small(name, scheme)
        if scheme.refuses(topology) is not None:
            continue
        channel = Channel(parties, SimulationCoins(5), Recording.everything())
        reals = np.linspace(-0.5, 0.5, len(topology.grouping.row_owner) * WIDTH).reshape(-1, WIDTH)
        rows = reals if topology.bound is None else np.rint(reals * topology.bound).astype(np.int64)
        with suppress(ProtocolError):  # what is said until then counts
            Collective(scheme, topology, channel).sum(rows, Step(0))
        yield channel.transcript


def secrets(transcript: Transcript) -> Iterator[tuple[str, bytes]]:
    """Names and bytes of keys, seeds and openings that were drawn, in parts of 16 bytes."""
    for batch in transcript.private:
        if batch.kind is not Private.COINS or batch.name in SENT or batch.values.dtype.kind not in "iu":
            continue
        values = batch.values
        if not values.size:
            continue
        whole = values.astype(np.uint8) if int(values.max()) < 256 else values
        for row in whole.reshape(len(values), -1):
            data = row.tobytes()
            if len(data) >= PART and len(set(data)) > 4:  # no small elements
                yield from ((batch.name, data[at : at + PART]) for at in range(0, len(data) - PART + 1, PART))


def told(transcript: Transcript) -> list[str]:
    """Names of what was drawn and is in a message as it is."""
    said = b"|".join(
        np.ascontiguousarray(value).tobytes()
        for batch in transcript.messages
        for value in (batch.fields or {}).values()
    )
    return sorted({name for name, part in secrets(transcript) if part in said})


@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda scheme: scheme.name)
def test_no_key_seed_or_opening_is_in_a_message(scheme: Scheme) -> None:
    """Of all that is drawn nothing is sent as it is, but what is for those whom it is sent to."""
    runs = list(transcripts(scheme))
    assert runs
    for run in runs:
        assert told(run) == []


def drawn_by_clients(scheme: Scheme) -> list[bytes]:
    """The secrets of all clients of a sum at a server, as they are when it has begun."""
    parties, topology = small("server", scheme)
    (machine,) = scheme.machines(topology, bytes(16), OwnDraws(SimulationCoins(1)), parties.ids(Role.SILO))
    machine.begin(Step(0), np.zeros((5, WIDTH), dtype=np.int64))
    return [row.tobytes() for row in machine.state()["secrets"].reshape(-1, 32)]


class Forgetting(MaskingClients):
    """Clients whose own masks are made from nothing."""

    def begin(self, step: Step, rows: NDArray[Any] | LazyArray | None = None) -> None:
        super().begin(step, rows)
        self._secrets[:, 2] = 0


@pytest.mark.parametrize("name", ["pairwise-masking", "lightsecagg", "ckks-shared-key"])
def test_every_secret_of_every_client_is_drawn(name: str) -> None:
    """Nothing that masks, keys or shares are made from is the same for two clients, or for two purposes."""
    found = drawn_by_clients(server_scheme(name))
    assert len(found) in (5 * 2, 5 * 3, 5 * 4)
    assert len(set(found)) == len(found)
    broken = drawn_by_clients(PairwiseMasking(clients=Forgetting))
    assert len(set(broken)) < len(broken)


@pytest.mark.parametrize(
    ("broken", "name"),
    [
        (RelayCoded(roles=Roles(devices=Telling), profile=Profile.SHOWN), "private keys"),
        (PairwiseMasking(clients=Answering), "secrets"),
    ],
    ids=["relay-coded", "pairwise-masking"],
)
def test_a_secret_in_a_message_is_found(broken: Scheme, name: str) -> None:
    """The broken twins of the test above: machines that do all that they should, and tell a secret with it."""
    assert any(name in told(run) for run in transcripts(broken))
