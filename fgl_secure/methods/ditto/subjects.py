"""Ditto under each scheme for sums of updates: federated averaging whose clients predict with models of their own."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from fgl_secure.auditing.method import Asked
from fgl_secure.auditing.plan import Plan
from fgl_secure.methods.ditto.configuration import Ditto
from fgl_secure.methods.ditto.program import Ditto as Client
from fgl_secure.methods.fedavg.subjects import fedavg_plan

NOTE = (
    "Clients send what they send in federated averaging, to the bit, and rounds that are run for attacks alone are its "
    "rounds; of personal models the figures that choose a round tell how often all of them together are right."
)


def ditto_plan(method: Ditto, asked: Asked) -> Plan:
    """Checks every choice and loads the data; nothing is run."""
    plan = fedavg_plan(method, asked, partial(Client, pull=method.pull, steps=method.own_steps))
    return replace(plan, notes=(*plan.notes, NOTE))
