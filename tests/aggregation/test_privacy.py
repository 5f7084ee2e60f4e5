"""Noise in the sum: of the width that is accounted for, spent against a budget, and never less."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

from fgl_secure import SecureAggregator
from fgl_secure.aggregation.layout import TensorLayout
from fgl_secure.aggregation.privacy import DistributedNoise, NoiseKind, NoisyEncoding
from fgl_secure.aggregation.rules import Code
from fgl_secure.coins import Coins, SimulationCoins
from fgl_secure.dp import BudgetExhaustedError, Perturbation, Unit, epsilon_spent, rounded_norm, skellam_epsilon
from fgl_secure.errors import InputError
from fgl_secure.schemes import names
from tests.error_codes import about

WIDTH, CLIENTS, THRESHOLD = 2000, 5, 3
MAPPING = {"w": torch.zeros(WIDTH)}
LAYOUT = TensorLayout.of(MAPPING)
EVERY_KIND = pytest.mark.parametrize("kind", list(NoiseKind))


def noise_of(kind: NoiseKind = NoiseKind.DISCRETE_GAUSSIAN, **more: Any) -> DistributedNoise:
    return DistributedNoise(**{"clip": 2.0, "epsilon": 2.0, "delta": 1e-5, "rounds": 4, "kind": kind, **more})


def aggregator_of(privacy: DistributedNoise, clients: int = CLIENTS) -> SecureAggregator:
    return SecureAggregator.for_clients(
        clients, "plaintext", threshold=THRESHOLD, privacy=privacy, coins=SimulationCoins(8)
    )


Encode = Callable[[Perturbation, Coins], Any]


def as_built(perturbation: Perturbation, coins: Coins) -> Any:
    """One client's vector of zeros, as the package makes it."""
    return NoisyEncoding(LAYOUT, noise_of(), perturbation, coins).encode(MAPPING)


def divided_by_all_clients(perturbation: Perturbation, coins: Coins) -> Any:
    """The broken twin: shares that make up the noise only if nobody drops out."""
    width = perturbation.noise.sigma * math.sqrt(perturbation.honest / CLIENTS)
    family = NoiseKind.DISCRETE_GAUSSIAN.family
    return np.append(family.of_sigma(width).sample(coins, (WIDTH,)), 1)


def divided_by_the_wrong_root(perturbation: Perturbation, coins: Coins) -> Any:
    """The broken twin that splits the deviation instead of the variance."""
    width = perturbation.noise.sigma / math.sqrt(perturbation.honest)
    return np.append(NoiseKind.DISCRETE_GAUSSIAN.family.of_sigma(width).sample(coins, (WIDTH,)), 1)


def shown_too_little(kind: NoiseKind, encode: Encode) -> bool:
    """Whether the noise of a sum with as few clients as the threshold is surely less than what is accounted for.

    Sums of WIDTH entries of variance sigma^2 follow sigma^2 chi^2; less than its quantile at one in 10^6 is too little.
    """
    perturbation, coins = noise_of(kind).perturbation(WIDTH, THRESHOLD), SimulationCoins(3)
    total = sum(encode(perturbation, coins) for _ in range(THRESHOLD))[:-1] * 2.0**-perturbation.fraction_bits
    return float((total**2).sum()) < perturbation.sigma**2 * float(stats.chi2.ppf(1e-6, WIDTH))


@EVERY_KIND
def test_the_fewest_clients_make_the_noise_that_is_accounted_for(kind: NoiseKind) -> None:
    """With as many clients as the threshold the variance in the sum is what the budget counts on, and not far above."""
    assert not shown_too_little(kind, as_built)
    perturbation, coins = noise_of(kind).perturbation(WIDTH, THRESHOLD), SimulationCoins(4)
    total = sum(as_built(perturbation, coins) for _ in range(THRESHOLD))[:-1] * 2.0**-perturbation.fraction_bits
    assert float((total**2).sum()) < perturbation.sigma**2 * float(stats.chi2.isf(1e-6, WIDTH))


@pytest.mark.parametrize("twin", [divided_by_all_clients, divided_by_the_wrong_root])
def test_too_little_noise_is_noticed(twin: Encode) -> None:
    """Shares made for all clients, or from the wrong root, leave too little noise when some drop out."""
    assert shown_too_little(NoiseKind.DISCRETE_GAUSSIAN, twin)


@EVERY_KIND
def test_the_mean_has_the_noise_that_is_stated(kind: NoiseKind) -> None:
    """The mean over all clients has the deviation that is stated for their number, within four standard errors."""
    aggregator = aggregator_of(noise_of(kind))
    mean = aggregator.mean([MAPPING] * CLIENTS)["w"].double().numpy()
    stated = NoisyEncoding(LAYOUT, noise_of(), aggregator.rules.perturbation(LAYOUT)).deviation(CLIENTS)
    assert abs(float(np.sqrt((mean**2).mean())) / stated - 1) < 4 / math.sqrt(2 * WIDTH)


@EVERY_KIND
def test_the_account_is_that_of_its_source(kind: NoiseKind) -> None:
    """Epsilon is within the target and near it, as the accountants of `dp` find it from sigma and the clip."""
    perturbation = noise_of(kind).perturbation(WIDTH, THRESHOLD)
    delta, clip = 1e-5 * 15 / 16, perturbation.grid_clip
    if kind is NoiseKind.DISCRETE_GAUSSIAN:
        found = epsilon_spent(math.sqrt(THRESHOLD) * perturbation.noise.sigma / clip, 4, delta)
    else:
        variance = THRESHOLD * perturbation.noise.sigma**2
        found = skellam_epsilon(variance, clip, min(math.sqrt(WIDTH) * clip, clip**2), 4, delta)
    assert 1.9 < found <= 2.0
    assert perturbation.epsilon(THRESHOLD) == pytest.approx(found, rel=1e-3)
    assert perturbation.epsilon(THRESHOLD - 1) > 2.0  # one client fewer would cost more than the target
    assert perturbation.target.relation.unit is Unit.CLIENT


def test_colluding_clients_are_not_counted_on() -> None:
    """With one client that tells its noise, the others make up for it: each adds more."""
    alone, with_one = (noise_of(colluding=c).perturbation(WIDTH, THRESHOLD) for c in (0, 1))
    unit = [p.noise.sigma * 2.0**-p.fraction_bits for p in (alone, with_one)]
    assert unit[1] / unit[0] == pytest.approx(math.sqrt(3 / 2), rel=1e-3)
    with pytest.raises(InputError, check=about("colluding")):
        noise_of(colluding=3).perturbation(WIDTH, THRESHOLD)


def test_a_multiplier_is_a_target() -> None:
    """Noise of a given multiplier costs what the accountant says, and has that multiplier."""
    privacy = DistributedNoise.of_multiplier(3.0, clip=2.0, delta=1e-5, rounds=4)
    assert privacy.perturbation(WIDTH, THRESHOLD).multiplier == pytest.approx(3.0, rel=1e-2)
    assert privacy.perturbation(WIDTH, THRESHOLD).multiplier >= 3.0


def test_updates_are_clipped_before_the_noise() -> None:
    """An update far beyond the clip moves the mean by the clip's norm, and no further, as far as the noise shows it."""
    direction = torch.ones(WIDTH) / math.sqrt(WIDTH)
    for length, expected in ((0.5, 0.5), (40.0, 2.0)):
        aggregator = aggregator_of(noise_of())
        mean = aggregator.mean([{"w": direction * length}] * CLIENTS)["w"]
        stated = NoisyEncoding(LAYOUT, noise_of(), aggregator.rules.perturbation(LAYOUT)).deviation(CLIENTS)
        assert abs(float(mean @ direction) - expected) < 5 * stated


def test_the_accounted_norm_is_that_of_rounded_updates() -> None:
    """The sensitivity is the norm within which updates are rounded on the very grid that the noise has."""
    for width in (10, WIDTH, 50_000):
        perturbation = noise_of().perturbation(width, THRESHOLD)
        assert perturbation.grid_clip == rounded_norm(2.0, width, perturbation.fraction_bits)
        assert perturbation.clip >= 2.0 - 2.0**-perturbation.fraction_bits


def test_noise_is_fresh_for_every_client_and_round() -> None:
    """No two vectors have the same noise."""
    perturbation, coins = noise_of().perturbation(WIDTH, THRESHOLD), SimulationCoins(1)
    first, second = as_built(perturbation, coins), as_built(perturbation, coins)
    assert (first[:-1] != second[:-1]).mean() > 0.9


def test_the_budget_is_counted_and_kept() -> None:
    """Every round spends, the sum is within the target, and a round beyond it is refused before anything is sent."""
    aggregator = aggregator_of(noise_of(rounds=2))
    spent = [aggregator.spent_epsilon]
    for _ in range(2):
        aggregator.mean([MAPPING] * CLIENTS, dropped={4})
        spent.append(aggregator.spent_epsilon)
    assert spent[0] == 0.0
    assert 0.0 < spent[1] < spent[2] <= 2.0  # type: ignore[operator]  # none of them is None under privacy
    with pytest.raises(BudgetExhaustedError, check=about("releases")):
        aggregator.mean([MAPPING] * CLIENTS)
    assert (aggregator.spent_epsilon, aggregator.spent_rounds) == (spent[2], 2)
    assert SecureAggregator.for_clients(3, "plaintext").spent_epsilon is None


def test_clients_keep_budgets_of_their_own() -> None:
    """A client in a process of its own refuses the round that its budget has no room for, whatever the server says."""
    server = aggregator_of(noise_of()).server_round(LAYOUT)
    careful = aggregator_of(noise_of(rounds=4))
    careful.resume_budget(4)
    client = careful.client_round(0, server.session, server.number)
    client.provide(MAPPING)
    with pytest.raises(BudgetExhaustedError):
        client.reply(server.requests()[0])
    with pytest.raises(InputError, check=about("rounds")):
        careful.resume_budget(1)


def test_one_process_is_one_client_of_a_round() -> None:
    """A process that stands for two clients has its data counted twice in a sum, and once by its budget: refused."""
    server = aggregator_of(noise_of()).server_round(LAYOUT)
    process = aggregator_of(noise_of())
    for index in (0, 1):
        client = process.client_round(index, server.session, server.number)
        client.provide(MAPPING)
        if index:
            with pytest.raises(InputError, check=about("clients of a round under privacy")):
                client.reply(server.requests()[index])
        else:
            client.reply(server.requests()[index])
    assert process.spent_rounds == 1
    aggregator = aggregator_of(noise_of())  # the server's process may be a client's too
    own = aggregator.server_round(LAYOUT)
    client = aggregator.client_round(2, own.session, own.number)
    client.provide(MAPPING)
    client.reply(own.requests()[2])
    assert aggregator.spent_rounds == 1


@pytest.mark.parametrize(
    ("mapping", "weights", "message"),
    [
        (MAPPING, [1, 1, 1, 1, 2], "weights"),
        ({"w": torch.zeros(3), "n": torch.tensor(1)}, None, "tensors"),
        ({"w": torch.tensor([float("inf")])}, None, "numbers under 'w'"),
    ],
)
def test_what_has_no_sensitivity_is_refused(mapping: Any, weights: Any, message: str) -> None:
    """Weights, integers and numbers that are none are refused under privacy."""
    with pytest.raises(InputError, check=about(message)):
        aggregator_of(noise_of()).mean([mapping] * CLIENTS, weights)


@pytest.mark.parametrize("scheme", sorted(names("server")))
def test_every_scheme_carries_the_noise(scheme: str) -> None:
    """Under every scheme, with a drop-out, the mean has noise of the stated width."""
    aggregator = SecureAggregator.for_clients(
        CLIENTS, scheme, threshold=4, privacy=noise_of(), coins=SimulationCoins(8)
    )
    mean = aggregator.mean([MAPPING] * CLIENTS, dropped={1})["w"].double().numpy()
    stated = NoisyEncoding(LAYOUT, noise_of(), aggregator.rules.perturbation(LAYOUT)).deviation(CLIENTS - 1)
    assert abs(float(np.sqrt((mean**2).mean())) / stated - 1) < 4 / math.sqrt(2 * WIDTH)


def test_size_must_stay() -> None:
    """Mappings of another size need other noise, and are refused."""
    aggregator = aggregator_of(noise_of())
    aggregator.mean([MAPPING] * CLIENTS)
    with pytest.raises(InputError, check=about("mappings")):
        aggregator.mean([{"w": torch.zeros(1)}] * CLIENTS)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"clip": 0.0}, "clip"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"delta": 1.0}, "delta"),
        ({"rounds": 0}, "releases"),
        ({"colluding": -1}, "colluding"),
    ],
)
def test_targets_that_are_none_are_refused(change: dict[str, Any], message: str) -> None:
    """Clips, budgets and counts outside their ranges are refused."""
    with pytest.raises(InputError, check=about(message)):
        noise_of(**change)


def test_bounds_and_weights_have_no_place_under_privacy() -> None:
    """The clip is the bound and the noise makes the grid."""
    for more in ({"bound": 1.0}, {"fraction_bits": 3}, {"weight_fraction_bits": 2}):
        with pytest.raises(InputError, check=about("fraction_bits")):
            SecureAggregator.for_clients(3, "plaintext", privacy=noise_of(), **more)


def test_a_server_cannot_draw_noise() -> None:
    """Without a client's coins nothing is encoded; an empty sum has no mean."""
    code: Code = NoisyEncoding(LAYOUT, noise_of(), noise_of().perturbation(WIDTH, THRESHOLD))
    with pytest.raises(InputError, check=about("coins")):
        code.encode(MAPPING)
    assert code.errors(np.zeros(WIDTH + 1, np.int64), 3) == {"w": math.inf}
