"""Batch normalisation."""

from __future__ import annotations

import torch

from fgl_secure.methods.fedvn.models import BatchNorm, collecting

ROWS = torch.tensor([[1.0, 5.0], [2.0, 5.0], [4.0, 7.0]])
COUNTS = torch.tensor([3.0, 1.0, 2.0])
REPEATED = ROWS.repeat_interleave(COUNTS.long(), dim=0)


def test_a_row_that_counts_several_times_is_that_row_several_times() -> None:
    """Outputs and collected statistics are those of the repeated rows."""
    counted, repeated = BatchNorm(2, kept=True), BatchNorm(2, kept=True)
    with collecting(counted, repeated):
        once = counted(ROWS, COUNTS).repeat_interleave(COUNTS.long(), dim=0)
        torch.testing.assert_close(once, repeated(REPEATED))
    for mine, wanted in zip(counted.buffers(), repeated.buffers(), strict=True):
        torch.testing.assert_close(mine, wanted)
    assert not torch.equal(next(counted.buffers()), torch.zeros(2))


def test_collected_statistics_are_pytorch_s_cumulative_ones() -> None:
    """Batches that are collected count the same each, and a second collection starts anew."""
    ours, theirs = BatchNorm(2, kept=True), torch.nn.BatchNorm1d(2, momentum=None)
    with collecting(ours):
        ours(ROWS * 7)
    with collecting(ours):
        for rows in (ROWS, REPEATED, ROWS + 1):
            torch.testing.assert_close(ours(rows), theirs(rows))
    ours.eval()
    theirs.eval()
    torch.testing.assert_close(ours(REPEATED), theirs(REPEATED))


def test_nothing_is_kept_outside_a_collection() -> None:
    """A training batch leaves statistics as they are; without any to keep, a batch's own serve at all times."""
    kept, never = BatchNorm(2, kept=True), BatchNorm(2, kept=False)
    trained = kept(ROWS)
    assert torch.equal(next(kept.buffers()), torch.zeros(2))
    kept.eval()
    never.eval()
    torch.testing.assert_close(kept(ROWS), ROWS, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(never(ROWS), trained)


def test_a_single_row_comes_out_as_the_shift() -> None:
    """One graph in a batch, or one node, has no variance; it neither fails nor moves collected statistics."""
    norm = BatchNorm(2, kept=True)
    with collecting(norm):
        assert torch.equal(norm(ROWS[:1]), torch.zeros(1, 2))
    assert torch.equal(next(norm.buffers()), torch.zeros(2))
