"""Values of a wrong type or range, in Python: one sentence that names the argument, before anything ran."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from fgl_secure import Data, audit, methods, schemes, train
from fgl_secure.errors import InputError
from fgl_secure.protocols.ckks import Ckks
from fgl_secure.protocols.plaintext import Path, Plaintext
from fgl_secure.protocols.relay_coded import Profile, RelayCoded

any_value: Any = None
HiFGL: Any = methods.HiFGL
FedAvg: Any = methods.FedAvg
AnyData: Any = Data
run: Any = lambda **given: audit(HiFGL(epochs=1), **given)  # noqa: E731

BAD: dict[str, tuple[Callable[[], object], str]] = {
    "silos that are no integer": (lambda: AnyData(silos=2.5), "silos must be an integer; found 2.5"),
    "silos that are text": (lambda: AnyData(silos="5"), "silos must be an integer; found '5'"),
    "name that is no text": (lambda: AnyData(3), "name must be text; found 3"),
    "file that is no Path": (lambda: AnyData(silo_file="/x"), "silo_file must be a Path or None; found '/x'"),
    "epochs that are a switch": (lambda: HiFGL(epochs=True), "epochs must be an integer or None; found True"),
    "epochs that are text": (lambda: HiFGL(epochs="3"), "epochs must be an integer or None; found '3'"),
    "switch that is text": (lambda: HiFGL(static_first_layer="no"), "static_first_layer must be True or False"),
    "privacy that is a number": (lambda: HiFGL(privacy=5), "privacy must be EmbeddingPrivacy or None; found 5"),
    "rate that is text": (lambda: FedAvg(local_rate="0.1"), "local_rate must be a number; found '0.1'"),
    "steps that are no integer": (lambda: FedAvg(local_steps=2.5), "local_steps must be an integer; found 2.5"),
    "schemes that are a number": (lambda: run(schemes=5), "schemes must be one or several; found 5"),
    "schemes that are None": (lambda: run(schemes=None), "schemes must be one or several; found None"),
    "scheme that is a number": (lambda: run(schemes=[5]), "schemes must be text, or schemes by topology"),
    "scheme without a topology": (lambda: run(schemes=[RelayCoded()]), "schemes must be text, or schemes by topology"),
    "no topology": (lambda: run(schemes=[{}]), "schemes must be text, or schemes by topology for each run; found {}"),
    "text by topology": (lambda: run(schemes={"neighbours": "secmp"}), "found 'secmp' for neighbours"),
    "scheme of another topology": (lambda: run(schemes={"neighbours": Ckks()}), "ckks does not, because"),
    "attacks that are a number": (lambda: run(schemes="secmp", attacks=5), "attacks must be one or several; found 5"),
    "attack that is a number": (lambda: run(schemes="secmp", attacks=[5]), "attacks must be names"),
    "seed that is text": (lambda: run(seed="0"), "seed must be an integer; found '0'"),
    "seed that is a fraction": (lambda: run(seed=0.5), "seed must be an integer; found 0.5"),
    "coins that are a number": (lambda: train(HiFGL(epochs=1), coins=any_value or 5), "coins must be Coins"),  # type: ignore[arg-type]
    "summary of nothing": (lambda: schemes.summary("nope"), "scheme must be one of plaintext"),
    "parameters of nothing": (lambda: schemes.parameters("nope"), "scheme must be one of plaintext"),
    "refusal of nothing": (lambda: schemes.refusal("nope", "server"), "scheme must be one of plaintext"),
    "refusal for nothing": (lambda: schemes.refusal("secmp", "devices"), "topology must be one of neighbours"),
    "text that is None": (lambda: schemes.parse(any_value), "scheme must be written"),
    "no topologies": (lambda: schemes.assignment("plaintext", ()), "topologies must be one or more; found none"),
    "parameter twice": (lambda: schemes.parse("secmp[T=1,T=2]"), "T of secmp must be given once; found [T=1,T=2]"),
    "digits of another script": (lambda: schemes.parse("secmp[T=٣]"), "T of secmp must be an integer; found ٣"),
    "digits with a gap": (lambda: schemes.parse("relay-coded[k_min=1_0]"), "found 1_0"),
    "parameter without a value": (lambda: schemes.parse("relay-coded[k_min=]"), "must be an integer; found nothing"),
}  # fmt: skip


@pytest.mark.parametrize(("call", "says"), BAD.values(), ids=BAD.keys())
def test_are_refused_in_one_sentence(call: Callable[[], object], says: str) -> None:
    """Each is an InputError whose message says which argument broke which rule."""
    with pytest.raises(InputError, match=re.escape(says)) as caught:
        call()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "scheme",
    [
        RelayCoded(profile=Profile.HIDDEN, max_degree=9, k_min=1),
        RelayCoded(T=2, R=5, profile=Profile.SHOWN),
        Plaintext(path=Path.SILO, minimum_group=3),
    ],
    ids=lambda scheme: scheme.name,
)
def test_what_a_name_prints_is_read_back(scheme: Any) -> None:
    """A scheme's name has every parameter that was set, and makes the same scheme."""
    assert schemes.parse(scheme.name) == ("neighbours", scheme)
