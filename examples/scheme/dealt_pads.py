"""Sums of clients' vectors under pads that a dealer gave them: pads add up to 0, so that the server sees the sum."""

from dataclasses import dataclass, replace

from fgl_secure.algebra import MERSENNE_61 as P
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.plaintext.scheme import Adder, PlaintextClients
from fgl_secure.protocols.scheme import UniformField
from fgl_secure.protocols.stepwise import SumTerms
from fgl_secure.runtime import PAYLOAD, Claim, Guarantee, Phase, Role, Secret, Strength


class PaddedClients(PlaintextClients):
    def begin(self, step, rows=None):
        pads = self.draws.draw("pads", self.parties, P, rows.shape[1:], step)
        pads[0] = [-sum(map(int, column)) % P for column in pads[1:].T]
        super().begin(step, (rows + pads) % P)


class PadAdder(Adder):
    @property
    def sums(self):
        return None if super().sums is None else (super().sums + P // 2) % P - P // 2


@dataclass(frozen=True)
class DealtPads(Plaintext):
    label, summary, takes_reals, uses_keys = "dealt-pads", "one-time pads from a dealer", False, True

    def claim_for(self, topology):
        return Claim((Guarantee(Secret.SUMMAND, {Role.SERVER: 1}, Strength.PERFECT, "sums alone", "here"),), (), ())

    def uniform_fields(self, topology):
        return (UniformField(Phase.VECTORS, PAYLOAD, P),)

    def machines(self, topology, session, draws, hosted=None, *, names=None):
        terms = SumTerms(self.label, replace(topology, bound=None), session, draws.batch_shape)
        clients = PaddedClients(topology.senders, terms)
        clients.draws = draws
        return clients, PadAdder(topology.grouping.group_owner, terms, len(topology.senders))
