"""Scores of membership: optimal where the optimum is known, at chance where there is nothing to find."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import log_expit, logsumexp
from scipy.stats import norm

from fgl_secure.attacks.areas import area
from fgl_secure.attacks.outputs import lira_offline, lira_online, power_of, rmia
from fgl_secure.attacks.outputs.membership import claims_at, union_at
from fgl_secure.errors import InputError
from tests.error_codes import about

NODES, MODELS = 200, 80


def _gaussian(seed: int, shift: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Log probabilities whose logits are normal around a level of the node, higher by `shift` for members."""
    rng = np.random.default_rng(seed)
    members = rng.random((MODELS + 1, NODES)) < 0.5
    logits = rng.normal(0, 2, NODES) + shift * members + rng.standard_normal((MODELS + 1, NODES))
    return log_expit(logits), members[0], members[1:]


def test_lira_reaches_the_optimum_for_normal_logits() -> None:
    """Two normal laws one deviation apart have area Phi(1 / sqrt 2) = 0.760; a threshold on the loss has less."""
    areas = []
    for seed in range(40):
        log_p, member, inside = _gaussian(seed, 1.0)
        scores = (lira_online(log_p[0], log_p[1:], inside), lira_offline(log_p[0], log_p[1:], inside), log_p[0])
        areas.append([area(each[member], each[~member]) for each in scores])
    online, offline, loss = np.mean(areas, axis=0)
    optimum = float(norm.cdf(1 / np.sqrt(2)))
    assert optimum - 0.02 < online < optimum + 0.02
    assert optimum - 0.02 < offline < optimum + 0.02
    assert loss < optimum - 0.1


def test_nothing_is_found_where_members_are_answered_as_others_are() -> None:
    """In 300 runs without a shift intervals hold one half as often as they say, and false positives stay bounded."""
    held = np.zeros((300, 3))
    rates = np.zeros(300)
    for seed in range(300):
        log_p, member, inside = _gaussian(seed, 0.0)
        all_scores = [
            lira_online(log_p[0], log_p[1:], inside),
            lira_offline(log_p[0], log_p[1:], inside),
            rmia(log_p[0], log_p[1:]),
        ]
        powers = [power_of(each, member) for each in all_scores]
        held[seed] = [each.auc_interval.low <= 0.5 <= each.auc_interval.high for each in powers]
        rates[seed] = union_at(all_scores, member, 0.05).fpr
        assert all(each.rates[rate].fpr <= rate for each in powers for rate in each.rates)
    assert (held.mean(axis=0) > 0.91).all()
    assert rates.max() <= 0.05


def test_no_score_exceeds_the_exact_posterior() -> None:
    """Models drawn from the posterior over a finite set, given members: all sets of members are enumerated."""
    rng = np.random.default_rng(0)
    nodes, hypotheses = 5, 400
    # log probability of each label under each hypothesis; some nodes are harder than others
    table = log_expit(rng.normal(0, 2, (hypotheses, nodes)) + np.array([-4.0, -2.0, 0.0, 2.0, 4.0]))
    subsets = np.array(list(itertools.product((False, True), repeat=nodes)))
    weights = subsets @ table.T  # log likelihood of each set under each hypothesis
    posterior = np.exp(weights - logsumexp(weights, axis=1, keepdims=True))
    joint = posterior / posterior.sum(axis=0)  # of sets given the hypothesis: all sets are equally likely
    exact = np.stack([joint[subsets[:, node]].sum(axis=0) for node in range(nodes)], axis=1)

    def draw(count: int) -> tuple[np.ndarray, np.ndarray]:
        chosen = rng.integers(len(subsets), size=count)
        drawn = (posterior[chosen].cumsum(axis=1) > rng.random((count, 1))).argmax(axis=1)
        return subsets[chosen], drawn

    inside, drawn = draw(64)
    member, targets = draw(20_000)
    shadows = table[drawn]
    scores = {
        "exact": exact[targets],
        "rmia": np.stack([rmia(table[each], shadows) for each in range(hypotheses)])[targets],
        "online": np.stack([lira_online(table[each], shadows, inside) for each in range(hypotheses)])[targets],
        "offline": np.stack([lira_offline(table[each], shadows, inside) for each in range(hypotheses)])[targets],
        "loss": table[targets],
    }
    areas = {name: area(each[member], each[~member]) for name, each in scores.items()}
    assert all(areas["exact"] >= each - 0.005 for each in areas.values()), areas
    assert areas["exact"] - areas["rmia"] < 0.02, areas
    assert areas["exact"] - areas["loss"] > 0.02, areas


@given(st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=6, max_size=40), st.floats(0.0, 0.5), st.integers(0, 99))
def test_false_positives_stay_below_what_is_allowed_whatever_the_ties(
    values: list[float], rate: float, seed: int
) -> None:
    scores = np.array(values)
    member = np.random.default_rng(seed).permutation(len(scores)) < len(scores) // 2
    claimed = claims_at(scores, member, rate)
    assert claimed[~member].mean() <= rate


@pytest.mark.parametrize("member", [np.ones(4, np.bool_), np.zeros(4, np.bool_)], ids=["all", "none"])
def test_a_power_needs_both_kinds(member: np.ndarray) -> None:
    with pytest.raises(InputError, check=about("members")):
        power_of(np.zeros(4), member)
