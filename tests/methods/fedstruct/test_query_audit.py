"""Auditing by row space refuses what would give a node away, and counting does not."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fgl_secure.errors import InputError
from fgl_secure.methods.fedstruct.exchange import AuditRule, QueryAudit, published_limit
from tests.error_codes import about

NODES = 8


def queries(seed: int, count: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    weights = rng.random((count, NODES))
    weights[rng.random((count, NODES)) < 0.6] = 0
    return weights


def answered(rule: AuditRule, asked: np.ndarray) -> np.ndarray:
    audit = QueryAudit(NODES, rule)
    return asked[[audit.admits(query) for query in asked]]


def leverages(rows: np.ndarray) -> np.ndarray:
    """The diagonal of the projection on the row space, by way of a singular value decomposition."""
    _, values, right = np.linalg.svd(rows, full_matrices=False)
    basis = right[values > 1e-9 * values.max(initial=1.0)]
    return np.asarray((basis**2).sum(axis=0))


@given(st.integers(0, 10**6), st.integers(1, 20), st.floats(0.2, 1.0))
def test_no_node_is_brought_nearer_than_the_rule_allows(seed: int, count: int, most: float) -> None:
    """However many queries are asked, no leverage of what was answered exceeds tau."""
    kept = answered(AuditRule(most, 1), queries(seed, count))
    if len(kept):
        assert leverages(kept).max() <= most + 1e-9


@given(st.integers(0, 10**6), st.integers(1, 20))
def test_the_audit_knows_the_leverage(seed: int, count: int) -> None:
    """The leverage that the audit keeps is that of the row space of all it has answered."""
    audit = QueryAudit(NODES, AuditRule(0.95, 1))
    asked = queries(seed, count)
    kept = asked[[audit.admits(query) for query in asked]]
    expected = leverages(kept) if len(kept) else np.zeros(NODES)
    assert np.allclose(audit.leverage, expected, atol=1e-8)


def test_counting_lets_a_single_node_through() -> None:
    """The broken twin: the paper's count is far from reached by one query that weighs one node, which gives it away."""
    alone = np.eye(NODES)[:1]
    assert published_limit(1, 256, 7, NODES)
    assert leverages(alone).max() == 1
    assert len(answered(AuditRule(0.9, 1), alone)) == 0


def test_two_queries_that_differ_in_one_node_are_not_both_answered() -> None:
    """Each alone is harmless; their difference is one node's row."""
    pair = np.array([[1.0, 1, 1, 0, 0, 0, 0, 0], [1, 1, 1, 1, 0, 0, 0, 0]])
    assert len(answered(AuditRule(0.9, 2), pair)) == 1


def test_what_follows_from_earlier_answers_is_answered() -> None:
    """A combination of answered queries tells nothing new, so refusing it would help nobody."""
    audit = QueryAudit(NODES, AuditRule(0.9, 2))
    first, second = np.array([1.0, 1, 1, 0, 0, 0, 0, 0]), np.array([0.0, 0, 0, 1, 1, 1, 0, 0])
    assert audit.admits(first)
    assert audit.admits(second)
    assert audit.admits(2 * first - second)


def test_a_query_over_few_nodes_is_refused() -> None:
    """With k_min = 3 a query that weighs two nodes is refused whatever its leverage, and one of zeros says nothing."""
    audit = QueryAudit(NODES, AuditRule(1.0, 3))
    assert not audit.admits(np.array([1.0, 1, 0, 0, 0, 0, 0, 0]))
    assert audit.admits(np.zeros(NODES))


@pytest.mark.parametrize(
    ("most", "least", "rule"), [(0.0, 2, "most_leverage"), (1.1, 2, "most_leverage"), (0.5, 0, "least_nodes")]
)
def test_rules_that_make_no_sense_are_refused(most: float, least: int, rule: str) -> None:
    """Leverages lie between 0 and 1, and a query weighs at least one node."""
    with pytest.raises(InputError, check=about(rule)):
        AuditRule(most, least)
