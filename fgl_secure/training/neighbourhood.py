"""Sums over neighbours as a run opens them: between partners, where a scheme has neighbours choose some."""

from __future__ import annotations

from fgl_secure.protocols.collective import Code, Collective
from fgl_secure.protocols.partners import agree
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.protocols.topology import NEIGHBOURS, Grouping, Topology
from fgl_secure.runtime import Channel


def open_neighbours(
    scheme: Scheme, sums: Grouping, width: int, channel: Channel, code: Code | None = None
) -> Collective:
    """Opens sums over neighbours.

    Args:
        scheme: computes them. Where it bounds how many messages a device sends, devices agree on partners first, over
            the same channel.
        sums: who has whom as neighbour.
        width: most entries of a row.
        channel: between all parties.
        code: how real rows become integers; the scheme's own unless given.

    Raises:
        InputError: the scheme refuses the topology, or does not fit the parties of the channel.
        FieldRangeError: the field cannot hold the sums.
    """
    rules = scheme.partnering(sums)
    if rules is None:
        return Collective(scheme, Topology(NEIGHBOURS, sums, width), channel, code)
    partners = agree(sums, rules, channel)
    topology = Topology(NEIGHBOURS, partners.grouping, width, circuits=partners.circuits, keys=partners.keys)
    return Collective(scheme.among(rules), topology, channel, code or scheme.fixed_point(rules.most))


def most_terms(scheme: Scheme, sums: Grouping) -> int:
    """Most rows in one sum over neighbours, either way, by what everybody knows: D where devices agree on partners.

    Args:
        scheme: computes the sums.
        sums: who has whom as neighbour.
    """
    rules = scheme.partnering(sums)
    return max(sums.largest_group, sums.reversed().largest_group, 1) if rules is None else rules.most
