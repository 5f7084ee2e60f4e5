"""Schemes of `fgl_secure` as subjects: the machines that users run, under ideal cryptography over small fields."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_reproduction.known_flaws.case import Allowed, HidingProtocol
from fgl_reproduction.known_flaws.ideal_masking import IdealCryptography
from fgl_reproduction.known_flaws.ideal_relays import IdealCryptography as IdealRelayCryptography
from fgl_secure.algebra import PrimeField
from fgl_secure.protocols.collective import Collective
from fgl_secure.protocols.lightsecagg import LightSecAgg
from fgl_secure.protocols.lightsecagg.machines import LightSecAggClients as CodingClients
from fgl_secure.protocols.pairwise_masking import PairwiseMasking
from fgl_secure.protocols.relay_coded import Profile, RelayCoded
from fgl_secure.protocols.relay_coded.cryptography import Cryptography as RelayCryptography
from fgl_secure.protocols.secagg.scheme import AggregationScheme
from fgl_secure.protocols.secmp import Points, SecretMessagePassing
from fgl_secure.protocols.topology import NEIGHBOURS, Grouping, Topology
from fgl_secure.runtime import Channel, Directory, Guarantee, Party, Phase, Role, Step
from fgl_secure.testing import protocol_of
from fgl_secure.testing.protocol import Inputs, Protocol
from fgl_secure.typing import Integers

_VECTORS, _ANSWERS = (Phase.MASKED_VECTORS,), (Phase.UNMASKING,)
_GONE = {1: (*_VECTORS, Phase.ROSTERS, *_ANSWERS), 2: _ANSWERS}
"""By client, phases whose messages are lost: the second drops out before its vector, the third before unmasking."""


def secret_message_passing() -> HidingProtocol:
    """Return SecMP as published: two devices of one silo send to a third, over 2^31 - 1 elements."""
    parties = Directory.hierarchy(1, 3)
    grouping = _to_the_last(parties, np.zeros(3, dtype=np.int64))
    scheme = SecretMessagePassing(points=Points(alphas=(3, 4), betas=(1, 2)), bound=2.0)
    guarantees = scheme.claim_for(Topology(NEIGHBOURS, grouping, 1)).guarantees
    return HidingProtocol(
        protocol_of(scheme, grouping, parties), guarantees, _sums_to(parties, grouping, silos=True), _zero(3)
    )


def relay_coded(cryptography: type[RelayCryptography] = IdealRelayCryptography) -> HidingProtocol:
    """Return `relay-coded`: two devices send to a third via two relays, of which one may collude.

    Args:
        cryptography: another class for a negative control.
    """
    parties = Directory.hierarchy(2, 3, 2)
    grouping = _to_the_last(parties, np.array([0, 1, 1]))
    field = PrimeField(13)
    scheme = RelayCoded(
        field, T=1, R=2, k_min=2, bound=2.0, fraction_bits=0, cryptography=cryptography, profile=Profile.SHOWN
    )
    guarantees = scheme.claim_for(Topology(NEIGHBOURS, grouping, 1)).guarantees
    return HidingProtocol(protocol_of(scheme, grouping, parties), guarantees, _sums_to(parties, grouping), _zero(3))


def pairwise_masking(
    clients: int = 5,
    threshold: int = 3,
    degree: int | None = None,
    guarantees: tuple[Guarantee, ...] = (),
    **parts: Any,
) -> HidingProtocol:
    """Return pairwise masking; one client drops out before its vector and one before its unmasking response.

    Args:
        clients: number of senders.
        threshold: fewest clients that must remain.
        degree: neighbours per client; None takes all others.
        guarantees: in addition to those of the scheme.
        parts: arguments of the scheme for a negative control.
    """
    scheme = PairwiseMasking(threshold, 31, degree=degree, **{"cryptography": IdealCryptography, **parts})
    return _one_sum(scheme, clients, width=1, guarantees=guarantees)


def lightsecagg(clients: type[CodingClients] = CodingClients) -> HidingProtocol:
    """Return LightSecAgg among five clients, of which three must remain and two may collude, with equal drop-outs.

    Args:
        clients: another machine for a negative control.
    """
    scheme = LightSecAgg(3, 31, colluding=2, cryptography=IdealCryptography, clients=clients)
    return _one_sum(scheme, 5, width=1, guarantees=())


def sum_to(receiver: Party, included: Callable[[Inputs], Inputs] = lambda values: values) -> Allowed:
    """Return a declared leakage: one party learns the sum of the rows, and no other party learns anything.

    Args:
        receiver: the party.
        included: selects the rows of the sum.
    """

    def allowed_knowledge(values: Inputs, coalition: tuple[Party, ...]) -> Hashable:
        return tuple(included(values).sum(axis=0).tolist()) if receiver in coalition else None

    return allowed_knowledge


def _one_sum(scheme: AggregationScheme, clients: int, width: int, guarantees: tuple[Guarantee, ...]) -> HidingProtocol:
    parties = Directory({Role.SERVER: 1, Role.SILO: clients})
    topology = Topology.to_server(parties, width, 2)
    silent = {int(topology.senders[u]): phases for u, phases in _GONE.items()}
    present = [u for u in range(clients) if Phase.MASKED_VECTORS not in _GONE.get(u, ())]

    def run(inputs: Inputs, channel: Channel) -> None:
        lossy = Channel(channel.parties, channel.coins, channel.recording, loss=_losing(silent))
        Collective(scheme, topology, lossy).sum(inputs, Step(1))
        channel.transcript.messages += lossy.transcript.messages
        channel.transcript.private += lossy.transcript.private

    allowed = sum_to(Party(Role.SERVER, 0), lambda values: values[present])
    protocol = Protocol(run, parties, 31, topology.senders, name=scheme.name)
    zero = np.zeros((clients, width), dtype=np.int64)
    return HidingProtocol(protocol, (*scheme.claim_for(topology).guarantees, *guarantees), allowed, zero)


def _losing(silent: Mapping[int, tuple[Phase, ...]]) -> Callable[[Phase, Step, Integers, Integers], NDArray[np.bool_]]:
    def arrives(phase: Phase, _: Step, senders: Integers, __: Integers) -> NDArray[np.bool_]:
        return np.array([phase not in silent.get(end, ()) for end in senders.tolist()], dtype=np.bool_)

    return arrives


def _to_the_last(parties: Directory, silo_of: Integers) -> Grouping:
    """Return a grouping in which every device owns a row and a group, and all others send to the last."""
    devices, silos = parties.ids(Role.DEVICE), parties.ids(Role.SILO)[silo_of]
    senders = np.arange(len(devices) - 1)
    return Grouping(devices, devices, senders, np.full(len(senders), len(senders)), silos, silos)


def _sums_to(parties: Directory, grouping: Grouping, *, silos: bool = False) -> Allowed:
    """Return a declared leakage: owners of groups learn their sums, with `silos` the silos that decode them too."""

    def allowed_knowledge(values: Inputs, coalition: tuple[Party, ...]) -> Hashable:
        members = [parties.id_of(party) for party in coalition]
        entitled = np.isin(grouping.group_owner, members)
        if silos:
            entitled |= np.isin(grouping.group_custodian, members)
        groups = np.flatnonzero(entitled).tolist()
        sums = {group: values[grouping.source[grouping.target == group]].sum(axis=0).tolist() for group in groups}
        return str(sums)

    return allowed_knowledge


def _zero(rows: int) -> Inputs:
    return np.zeros((rows, 1))
