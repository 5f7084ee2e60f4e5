"""Federated averaging as an audit runs it: which subjects, what attacks find, what is claimed, and bad input."""

import json
from dataclasses import replace
from functools import cache

import pytest

from fgl_secure.auditing import Record, Report, Verdict
from fgl_secure.auditing.audit import audit
from fgl_secure.cli.main import BAD_INPUT, OK, main
from fgl_secure.errors import InputError
from fgl_secure.methods import FedAvg
from fgl_secure.runtime import Secret, Strength
from tests.error_codes import about

QUICK = FedAvg(epochs=1)
READING = ("gradient-single-row", "gradient-labels", "gradient-span")


@cache
def report() -> Report:
    """Updates in the clear and under masks, read by three attacks."""
    return audit(QUICK, None, ("plaintext", "pairwise-masking"), READING)


def found(protocol: str, attack: str) -> list[Record]:
    """What an attack found under a protocol."""
    return [
        record for record in report().records if record.protocol.split("[")[0] == protocol and record.attack == attack
    ]


def test_single_rows_are_read_in_the_clear_and_not_under_masks() -> None:
    """From a single node's update the server reads its row exactly; from the sum of five it reads none."""
    assert any(record.verdict is Verdict.BROKEN for record in found("plaintext", "gradient-single-row"))
    assert not any(record.verdict is Verdict.BROKEN for record in found("pairwise-masking", "gradient-single-row"))


def test_labels_are_read_from_the_sum_as_well() -> None:
    """How often a label is trained on shows in the last bias, of one client or of all together; the claim admits it.

    One sum is one unit, whose classes depend on each other: the figure stands, and no verdict on it.
    """
    for protocol in ("plaintext", "pairwise-masking"):
        assert any(record.value > record.prior + 0.2 for record in found(protocol, "gradient-labels"))
    assert any(record.verdict.is_exposure for record in found("plaintext", "gradient-labels"))
    assert {record.n for record in found("pairwise-masking", "gradient-labels")} == {1}
    assert "how often each label is trained on" in str(report().claims["pairwise-masking"])


def test_no_finding_contradicts_masks() -> None:
    """Masks promise that no single update is seen, and no attack here sees one."""
    assert not report().contradictions


def test_noise_is_claimed_measured_and_priced() -> None:
    """With noise the claim has an epsilon, canaries stay below it, and accuracy without noise is reported."""
    (subject,) = FedAvg(epochs=1, noise=8.0).plan(None, ["pairwise-masking"]).subjects
    assert subject.name == "pairwise-masking+dp"
    promises = subject.claims[subject.name].guarantees
    assert [each.secret for each in promises if each.strength is Strength.DIFFERENTIAL_PRIVACY] == [Secret.SUMMAND]
    cost = subject.privacy_cost(subject.train(), lambda _: lambda *_: None)
    assert cost is not None
    assert 0 <= cost.measured.bound.epsilon <= cost.measured.claimed
    assert cost.accuracy_without is not None


def test_less_noise_than_claimed_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broken twin: clients that add a tenth of their share are caught by the canaries."""
    from fgl_secure.dp.mechanisms import DiscreteGaussian

    (subject,) = FedAvg(epochs=4, noise=2.0).plan(None, ["pairwise-masking"]).subjects
    honest = DiscreteGaussian.sample
    monkeypatch.setattr(DiscreteGaussian, "sample", lambda *given: honest(*given) // 10)
    cost = subject.privacy_cost(subject.train(), lambda _: lambda *_: None)
    assert cost is not None
    assert cost.measured.bound.epsilon > cost.measured.claimed


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ({"batch": 0}, "batch"),
        ({"local_steps": 0}, "steps"),
        ({"local_rate": -1.0}, "rate"),
        ({"noise": 0.0}, "noise"),
        ({"noise": float("nan")}, "noise"),
        ({"noise": 1.0, "clip": 0.0}, "clip"),
        ({"clip": 2.0}, "clip"),
        ({"backbone": "gat"}, "backbone"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_bad_choices_are_refused_before_anything_runs(choice: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, check=about(message)):
        replace(QUICK, **choice).plan()  # type: ignore[arg-type]  # one of several


@pytest.mark.parametrize(
    ("scheme", "message"),
    [
        ("secmp", "scheme"),
        ("pairwise-masking[threshold=0]", "threshold"),
        ("pairwise-masking[threshold=2]", "threshold"),
        ("plaintext[T=3]", "parameter of plaintext"),
    ],
)
def test_schemes_that_do_not_serve_are_refused(scheme: str, message: str) -> None:
    """There are no neighbourhood sums, and too low a threshold would show single clients."""
    with pytest.raises(InputError, check=about(message)):
        QUICK.plan(None, [scheme])


def test_noise_goes_with_a_scheme() -> None:
    """Nobody sees a share of the noise alone; without names the run in the clear stands beside the noisy one."""
    noisy = FedAvg(epochs=1, noise=1.0)
    with pytest.raises(InputError, check=about("noise")):
        noisy.plan(None, ["plaintext"])
    names = [subject.name for subject in noisy.plan().subjects]
    assert names == ["plaintext", "pairwise-masking", "pairwise-masking+dp"]


def test_training_says_under_which_scheme(capsys: pytest.CaptureFixture[str]) -> None:
    """`train fedavg` runs under masks unless told otherwise, and under one scheme alone."""
    assert main(["train", "fedavg", "--epochs", "1", "--json"]) == OK
    assert json.loads(capsys.readouterr().out)["protocol"] == "pairwise-masking"
    assert main(["train", "fedavg", "--scheme", "ckks-shared-key", "--scheme", "plaintext"]) == BAD_INPUT
    assert "scheme must be given once" in capsys.readouterr().err
