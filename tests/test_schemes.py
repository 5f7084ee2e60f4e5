"""Schemes by text: what is read, what is refused and with which words."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fgl_secure import audit, schemes
from fgl_secure.algebra import MERSENNE_61, Overflow, PrimeField
from fgl_secure.cli.listing import listing
from fgl_secure.errors import FglSecureError, InputError, UnknownNameError
from fgl_secure.methods import HiFGL
from fgl_secure.protocols.lightsecagg import LightSecAgg
from fgl_secure.protocols.pairwise_masking import PairwiseMasking
from fgl_secure.protocols.relay_coded import Profile, RelayCoded
from fgl_secure.protocols.secmp import MuDelivery, SecretMessagePassing
from fgl_secure.schemes import assignment, names, parse, refusal
from tests.error_codes import about

WRAPPING = SecretMessagePassing(PrimeField(11), overflow=Overflow.WRAP, delivery=MuDelivery.TARGET)
EVERY = [(topology, name) for topology in schemes.TOPOLOGIES for name in names(topology)]


@pytest.mark.parametrize(("topology", "name"), EVERY)
def test_a_name_alone_is_the_scheme_as_it_stands(topology: str, name: str) -> None:
    """Every scheme of every topology is read by its name, which is the one that it prints."""
    where, scheme = parse(f"{topology}={name}")
    assert (where, scheme.name) == (topology, name)
    assert schemes.summary(name)


@pytest.mark.parametrize(
    ("text", "scheme"),
    [
        ("relay-coded[T=2]", RelayCoded(T=2, R=3)),
        ("relay-coded[T=2,R=5,k_min=4]", RelayCoded(T=2, R=5, k_min=4, profile=Profile.HIDDEN)),
        ("relay-coded[p=2305843009213693951]", RelayCoded(PrimeField(MERSENNE_61))),
        ("relay-coded[bound=4.5, fraction_bits=3]", RelayCoded(bound=4.5, fraction_bits=3)),
        ("secmp[mu=target,wrap,p=11]", WRAPPING),
        ("clients=pairwise-masking[threshold=4]", PairwiseMasking(4)),
        ("server=pairwise-masking[threshold=4,degree=2,p=2147483647]", PairwiseMasking(4, degree=2, modulus=2**31 - 1)),
        ("lightsecagg[threshold=4,colluding=1]", LightSecAgg(4, colluding=1)),
    ],
)  # fmt: skip
def test_parameters_are_fields(text: str, scheme: object) -> None:
    """Numbers, primes and words reach the fields of the scheme; the relays follow T unless they are named."""
    assert parse(text)[1] == scheme


@pytest.mark.parametrize(
    "scheme",
    [
        RelayCoded(PrimeField(MERSENNE_61), T=2, R=4, k_min=1, profile=Profile.HIDDEN),
        SecretMessagePassing(PrimeField(101), T=3, delivery=MuDelivery.TARGET),
        PairwiseMasking(5, degree=4, modulus=2**31 - 1),
        LightSecAgg(5, colluding=2),
    ],
    ids=lambda scheme: scheme.name,
)
def test_what_a_scheme_prints_is_read_back(scheme: RelayCoded) -> None:
    """The name of a scheme with parameters stands for that very scheme."""
    topology = "neighbours" if isinstance(scheme, (RelayCoded, SecretMessagePassing)) else "server"
    assert parse(scheme.name, (topology,))[1] == scheme


def test_a_name_is_for_the_first_topology_that_it_serves() -> None:
    """Where a method has several, a topology in front decides, and else their order."""
    assert parse("plaintext", ("clients", "neighbours"))[0] == "clients"
    assert parse("relay-coded", ("clients", "neighbours"))[0] == "neighbours"
    assert parse("neighbours=plaintext", ("clients", "neighbours"))[0] == "neighbours"


def test_one_run_may_have_several() -> None:
    """Commas outside brackets part the schemes of different topologies."""
    chosen = assignment("relay-coded[k_min=1],server=ckks-shared-key", ("neighbours", "server"))
    assert chosen["neighbours"] == RelayCoded(k_min=1, profile=Profile.HIDDEN)
    assert chosen["server"].name == "ckks-shared-key"


def test_usual_parameters_stand_back_where_one_of_them_is_named() -> None:
    """A method's own room is taken as a whole or not at all, and only by schemes that have such fields."""
    usual = {"neighbours": {"field": MERSENNE_61, "bound": 1024.0}}
    assert parse("relay-coded[T=1]", ("neighbours",), usual)[1] == RelayCoded(PrimeField(MERSENNE_61), bound=1024.0)
    assert parse("relay-coded[bound=4]", ("neighbours",), usual)[1] == RelayCoded(bound=4.0)
    assert parse("plaintext", ("neighbours",), usual)[1].name == "plaintext"


def test_usual_choices_stand_by_themselves() -> None:
    """A choice that a method makes stays when numbers are named, and gives way to another that is named."""
    usual = {"neighbours": {"field": MERSENNE_61, "profile": "graph-shown"}}
    shown = parse("relay-coded[p=524287]", ("neighbours",), usual)[1]
    assert shown == RelayCoded(PrimeField(524287), profile=Profile.SHOWN)
    hidden = parse("relay-coded[graph-hidden]", ("neighbours",), usual)[1]
    assert hidden == RelayCoded(PrimeField(MERSENNE_61), profile=Profile.HIDDEN)


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ("magic", UnknownNameError, "scheme"),
        ("device=secmp", UnknownNameError, "topology"),
        ("server=secmp", InputError, "scheme"),
        ("secmp[", InputError, "scheme"),
        ("", InputError, "scheme"),
        ("secmp[]", InputError, "scheme"),
        ("secmp[k_min=3]", UnknownNameError, "parameter of secmp"),
        ("secmp[target,fast]", UnknownNameError, "parameter of secmp"),
        ("secmp[points=3]", UnknownNameError, "parameter of secmp"),
        ("relay-coded[drawn]", UnknownNameError, "parameter of relay-coded"),
        ("secmp[mu=server]", UnknownNameError, "mu of secmp"),
        ("secmp[T=two]", InputError, "T of secmp"),
        ("secmp[bound=x]", InputError, "bound of secmp"),
        ("clients=ckks[T=2]", InputError, "ckks"),
        ("relay-coded[k_min=0]", InputError, "k_min"),
        ("secmp[p=12]", FglSecureError, "modulus"),
    ],
)
def test_what_is_not_a_scheme_is_refused(text: str, kind: type[FglSecureError], message: str) -> None:
    with pytest.raises(kind, check=about(message)) as refused:
        parse(text)
    assert "\n" not in str(refused.value)


def test_topologies_of_others_are_refused() -> None:
    """A topology that there is, and that is none of the method's, is refused by the method's own."""
    with pytest.raises(InputError, check=about("scheme")):
        parse("server=ckks-shared-key", ("neighbours",))


def test_two_schemes_for_one_topology_are_refused() -> None:
    with pytest.raises(InputError, check=about("scheme")):
        assignment("secmp,plaintext", ("neighbours",))


def test_a_refusal_says_what_the_scheme_serves() -> None:
    """None where it serves the topology."""
    assert refusal("secmp", "neighbours") is None
    said = str(refusal("relay-coded", "clients"))
    assert said.startswith("relay-coded serves neighbours, members and not clients (a term of")
    assert said.endswith("relays add vectors for devices and for silos alone")


MODULE = """
from dataclasses import dataclass
from typing import ClassVar

from fgl_secure.protocols.plaintext import Plaintext


@dataclass(frozen=True, slots=True)
class Loud(Plaintext):
    label: ClassVar[str] = "loud"
    summary: ClassVar[str] = "every value in the clear, and proud of it"

    @property
    def name(self) -> str:
        return "loud"

    def refuses(self, topology):
        return None if topology.name == "neighbours" else "it is for devices"


NO_SCHEME = 7


class Twice(Loud):
    label: ClassVar[str] = "secmp"
"""


@pytest.fixture
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Installs a package beside this one, with an entry point for one of its names."""
    (tmp_path / "outside_schemes.py").write_text(MODULE, encoding="utf-8")
    described = tmp_path / "outside_schemes-1.0.dist-info"
    described.mkdir()
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: outside-schemes\nVersion: 1.0\n", "utf-8")
    monkeypatch.syspath_prepend(tmp_path)

    def install(name: str) -> None:
        points = f"[fgl_secure.schemes]\none = outside_schemes:{name}\n"
        (described / "entry_points.txt").write_text(points, encoding="utf-8")

    yield install
    sys.modules.pop("outside_schemes", None)


def test_a_scheme_from_outside_is_listed_and_audited(outside: Callable[[str], None]) -> None:
    """One class and an entry point: it stands behind those of this package, and attacks read its run."""
    outside("Loud")
    assert names()[-1] == names("neighbours")[-1] == "loud"
    assert "every value in the clear, and proud of it; serves neighbours" in listing("schemes")
    assert "it is for devices" in str(refusal("loud", "server"))
    report = audit(HiFGL(epochs=1), "digits", ["loud"], ["clear-values"])
    assert {record.protocol for record in report.records if record.attack == "clear-values"} == {"loud"}


@pytest.mark.parametrize(("name", "why"), [("NO_SCHEME", "entry point one of fgl_secure.schemes"), ("Twice", "scheme")])
def test_what_is_no_scheme_is_refused(outside: Callable[[str], None], name: str, why: str) -> None:
    """An entry point must name a class, and one that is called like no other."""
    outside(name)
    with pytest.raises(InputError, check=about(why)):
        names()


@pytest.mark.parametrize(
    ("kind", "field", "text"),
    [
        (RelayCoded, "profile", "graph-shown"),
        (RelayCoded, "keys", "x25519"),
        (PairwiseMasking, "rounding", "error-feedback"),
        (LightSecAgg, "keys", "x25519"),
        (SecretMessagePassing, "delivery", "target"),
        (SecretMessagePassing, "overflow", "wrap"),
    ],
)
def test_a_field_takes_the_name_of_a_member(kind: type[Any], field: str, text: str) -> None:
    """As text it would be compared with members, found to be none of them, and act as another one."""
    member = type(getattr(kind(), field))(text)
    options = {"precision": 8} if field == "rounding" else {}
    assert getattr(kind(**{field: text}, **options), field) is member
    with pytest.raises(InputError):
        kind(**{field: "nonsense"}, **options)
