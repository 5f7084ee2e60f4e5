"""Grouped sums inside autograd: the gradient of a sum is the sum along the reversed messages, under the same scheme."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given

from fgl_secure.errors import FieldRangeError
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.secmp import SecretMessagePassing
from fgl_secure.runtime import Direction, Phase, Step
from fgl_secure.training.grouped_sum import GroupedSum
from tests.protocols.conformance import channel_of, opened, triangle
from tests.strategies import Parties, groupings

STEP = Step(2, 1)


@given(groupings())
def test_gradient_is_that_of_the_numerical_derivative(case: Parties) -> None:
    """In float64 the backward pass agrees with finite differences, for any grouping."""
    start = torch.arange(2.0 * len(case.grouping.row_owner), dtype=torch.float64).reshape(-1, 2)

    def value(values: torch.Tensor) -> torch.Tensor:  # a step is summed once, so that each call has sums of its own
        sums = GroupedSum(opened(Plaintext(), channel_of(case.directory), case.grouping, 2))(values, STEP)
        return (sums.tanh() * torch.linspace(1, 2, sums.numel(), dtype=torch.float64).reshape(sums.shape)).sum()

    values = start.clone().requires_grad_()
    value(values).backward()  # type: ignore[no-untyped-call]
    for place in np.ndindex(start.shape):
        step = torch.zeros_like(start)
        step[place] = 1e-6
        slope = (value(start + step) - value(start - step)) / 2e-6
        assert values.grad is not None
        assert abs(float(slope - values.grad[place])) < 1e-6


@given(groupings())
def test_sums_and_gradients_are_those_of_index_add(case: Parties) -> None:
    """Forward and backward are torch's own index_add over the messages."""
    g = case.grouping
    ours, theirs = (torch.linspace(-1, 1, len(g.row_owner))[:, None].clone().requires_grad_() for _ in range(2))
    sums = GroupedSum(opened(Plaintext(), channel_of(case.directory), g, 1))(ours, STEP)
    source, target = torch.from_numpy(g.source), torch.from_numpy(g.target)
    expected = torch.zeros(len(g.group_owner), 1).index_add(0, target, theirs[source])
    assert torch.allclose(sums, expected, atol=1e-5)
    (sums**2).sum().backward()  # type: ignore[no-untyped-call]
    (expected**2).sum().backward()  # type: ignore[no-untyped-call]
    assert ours.grad is not None
    assert theirs.grad is not None
    assert torch.allclose(ours.grad, theirs.grad, atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_dtype_is_kept(dtype: torch.dtype) -> None:
    """Sums and gradients come in the dtype of the values."""
    case = triangle()
    sums = GroupedSum(opened(SecretMessagePassing(), channel_of(case.directory), case.grouping, 1))
    values = torch.ones(4, 1, dtype=dtype, requires_grad=True)
    out = sums(values, STEP)
    out.sum().backward()  # type: ignore[no-untyped-call]
    assert values.grad is not None
    assert (out.dtype, values.grad.dtype) == (dtype, dtype)


@pytest.mark.parametrize("scheme", [Plaintext(), SecretMessagePassing()], ids=lambda s: s.name)
def test_backward_messages_run_the_other_way(scheme: Plaintext | SecretMessagePassing) -> None:
    """The backward pass sends a message from target to source for each edge, at the same round and layer."""
    case = triangle()
    channel = channel_of(case.directory)
    values = torch.ones(4, 1, requires_grad=True)
    GroupedSum(opened(scheme, channel, case.grouping, 1))(values, STEP).sum().backward()  # type: ignore[no-untyped-call]
    phase = Phase.CODES if isinstance(scheme, SecretMessagePassing) else Phase.VALUES
    forward, backward = (batch for batch in channel.transcript.messages if batch.phase is phase)
    assert (forward.step, backward.step) == (STEP, Step(2, 1, Direction.BACKWARD))
    assert np.array_equal(backward.senders, case.grouping.group_owner[case.grouping.target])
    assert np.array_equal(forward.senders, case.grouping.row_owner[case.grouping.source])


def test_range_error_names_round_layer_and_pass() -> None:
    """A value out of range raises with round, layer and direction, in the forward and in the backward pass."""
    case = triangle()
    sums = GroupedSum(opened(SecretMessagePassing(bound=1.0), channel_of(case.directory), case.grouping, 1))
    with pytest.raises(FieldRangeError, match=r"bound 1; at least one does: .* \(round 2, layer 1, forward pass\)"):
        sums(torch.full((4, 1), 2.0), STEP)
    out = sums(torch.ones(4, 1, requires_grad=True), STEP)
    with pytest.raises(FieldRangeError, match=r"at least one does: .* \(round 2, layer 1, backward pass\)"):
        (1000 * out).sum().backward()  # type: ignore[no-untyped-call]
