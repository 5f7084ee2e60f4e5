"""Federated averaging as an audit runs it: which subjects, what attacks find, what is claimed, and bad input."""

import pytest

from fgl_secure.errors import InputError
from fgl_secure.methods import FedAvg
from fgl_secure.runtime import Secret, Strength
from tests.error_codes import about

QUICK = FedAvg(epochs=1)


@pytest.fixture(autouse=True)
def _few(few_digits: None) -> None:
    """Some of the digits."""


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
