"""Schemes by name."""

from __future__ import annotations

import pytest

from fgl_secure.algebra import Overflow, PrimeField
from fgl_secure.errors import FieldRangeError, UnknownNameError
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.registry import PROTOCOLS, Parameters, make_scheme
from fgl_secure.protocols.relay_coded import Profile, RelayCoded
from fgl_secure.protocols.secmp import MuDelivery, SecretMessagePassing


@pytest.mark.parametrize("name", PROTOCOLS)
def test_every_entry_makes_the_scheme_of_its_name(name: str) -> None:
    """With default parameters the scheme's own name is the registry's, and its summary is one line."""
    assert make_scheme(name, Parameters()).name == name == PROTOCOLS[name].name
    assert PROTOCOLS[name].summary
    assert "\n" not in PROTOCOLS[name].summary


def test_default_parameters_are_the_schemes_own() -> None:
    """The registry's defaults are those of the constructors."""
    assert make_scheme("secmp", Parameters()) == SecretMessagePassing()
    assert make_scheme("plaintext", Parameters()) == Plaintext()
    assert make_scheme("relay-coded", Parameters()) == RelayCoded()


def test_relays_are_as_few_as_can_be_unless_given() -> None:
    """Relay-coded takes T + 1 relays by default, and T, R, k_min and profile where they are given."""
    assert make_scheme("relay-coded", Parameters(T=2)) == RelayCoded(T=2, R=3)
    chosen = Parameters(T=2, relays=5, k_min=4, profile=Profile.ANON)
    assert make_scheme("relay-coded", chosen) == RelayCoded(T=2, R=5, k_min=4, profile=Profile.ANON)


def test_all_parameters_arrive() -> None:
    """Each parameter reaches the scheme, those that it lacks are ignored."""
    chosen = Parameters(11, 2, 1.0, 0, Overflow.WRAP, MuDelivery.TARGET)
    expected = SecretMessagePassing(PrimeField(11), 2, 1.0, 0, Overflow.WRAP, MuDelivery.TARGET)
    assert make_scheme("secmp", chosen) == expected
    assert make_scheme("plaintext", chosen) == Plaintext()


def test_unknown_names_and_unfit_parameters_are_refused() -> None:
    """The message lists the protocols; a composite modulus raises as it does in the constructor."""
    with pytest.raises(UnknownNameError, match="protocol must be one of plaintext, secmp, relay-coded; found 'spdz'"):
        make_scheme("spdz", Parameters())
    with pytest.raises(FieldRangeError, match="modulus must be a prime; found 12"):
        make_scheme("secmp", Parameters(modulus=12))
