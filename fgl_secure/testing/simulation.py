"""Privacy by simulation: the coalition's view can be made up from what it is allowed to know."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import TypeVar

from numpy.typing import ArrayLike

from fgl_secure.coins import MAX_TAPES
from fgl_secure.errors import InputError
from fgl_secure.runtime import Channel, Party, Private
from fgl_secure.statistics.features import MAX_PAIRS
from fgl_secure.statistics.statistical import ALPHA
from fgl_secure.testing.arms import Arm
from fgl_secure.testing.coins import tape_count
from fgl_secure.testing.evidence import Evidence, NotSimulatableError
from fgl_secure.testing.exactly import exact_evidence
from fgl_secure.testing.protocol import Inputs, Protocol
from fgl_secure.testing.sampling import Contest, Plan
from fgl_secure.testing.twins import judge, require_twin
from fgl_secure.testing.vacuous import Probe, Waivers, require_fair, require_leakage

Leakage = TypeVar("Leakage")

_OWN = (Private.COINS,)  # own inputs are given to the simulator as leakage and are constants here


def assert_simulatable(
    protocol: Protocol,
    inputs: ArrayLike,
    coalition: Iterable[Party],
    simulator: Callable[[Leakage, Channel], object],
    *,
    leakage: Callable[[Inputs], Leakage],
    broken_twin: Protocol,
    advantage: float = 0.03,
    alpha: float = ALPHA,
    samples: int | None = None,
    seed: int | None = None,
    pairs: int = MAX_PAIRS,
    waived: Mapping[str, str] | None = None,
) -> Evidence:
    """Compares the coalition's view of real runs with the view that a simulator makes up.

    The simulator is written like a protocol: it gets what `leakage` lets through, sends the coalition's messages over
    the channel in the order in which the protocol sends them, and draws the coalition's own coins there. The
    comparison is exact where the coin tapes of both can be enumerated, and statistical otherwise.

    Args:
        protocol: what is tested.
        inputs: one row for each owner.
        coalition: who pools views.
        simulator: `simulator(leakage(inputs), channel)`.
        leakage: what the coalition may know of the inputs, its own rows included.
        broken_twin: the same protocol with a flaw that this check must find.
        advantage: the smallest advantage that must be detected with probability .99; statistical comparison only.
        alpha: false-alarm probability of one run of all tests together; statistical comparison only.
        samples: sample size of each arm; None takes `--privacy-samples`, or what `advantage` needs.
        seed: makes the check repeatable; None takes `--privacy-seed`, or secret coins.
        pairs: how many pairs of coordinates are looked at.
        waived: rules of `docs/privacy_tests.md` that this test breaks on purpose, by name, each with a reason:
            "coalition", "trace" or "values".

    Raises:
        NotSimulatableError: real and simulated views were told apart.
        VacuousTestError: those of the twin were not, or the test would pass whatever the protocol does, for instance
            because `leakage` returns the honest rows as they are.
        SampleTooSmallError: the sample cannot show `advantage`.
    """
    __tracebackhide__ = True
    require_twin(protocol, broken_twin)
    real = protocol.checked_inputs(inputs, "inputs")
    members = tuple(sorted(set(coalition)))
    if not members:
        raise InputError("coalition must have at least one member; found none")
    require_leakage(leakage(real.copy()), real, protocol.rows_of(members))
    waivers, probe = Waivers.of(waived), Probe(protocol, {"inputs": real}, members)
    plan = Plan(advantage, alpha, samples, seed, pairs).with_settings()

    def simulate(given: Inputs, channel: Channel) -> None:
        simulator(leakage(given), channel)

    def check(tested: Protocol, decisive: float = 0.0) -> Evidence:
        simulated = Arm(replace(tested, run=simulate, name=f"simulator of {protocol}"), real, members, _OWN)
        return _compare(Arm(tested, real, members, _OWN), simulated, plan, decisive)

    return judge(
        check,
        protocol,
        broken_twin,
        NotSimulatableError,
        "{protocol} shows a coalition more than the allowed leakage",
        fair=partial(require_fair, probe, broken_twin, waivers),
        waived=waivers.notes,
        check_twin=partial(check, decisive=alpha**2),
    )


def _compare(real: Arm, simulated: Arm, plan: Plan, decisive: float) -> Evidence:
    if all(tape_count(arm.draws()) <= MAX_TAPES for arm in (real, simulated)):
        return exact_evidence("simulation, exact", real, simulated, ("the protocol", "the simulator"))
    return Contest("simulation, statistical", real, simulated, plan).evidence(decisive=decisive)
