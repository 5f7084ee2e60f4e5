"""What a check found, in the words that its message and the summary of a test run use."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Evidence:
    """The outcome of one check of one protocol.

    Attributes:
        check: what was checked.
        protocol: name of the protocol.
        observer: the coalition, or whoever else looks.
        rejected: whether the check found a difference.
        statistic: the figure that decides, with its name.
        detectable: what the check would have detected.
        advantage: the smallest distinguishing advantage behind `detectable`; 0 where every difference is seen.
        notes: further lines.
    """

    check: str
    protocol: str
    observer: str
    rejected: bool
    statistic: str
    detectable: str
    advantage: float
    notes: tuple[str, ...] = ()

    @property
    def summary(self) -> str:
        """One line."""
        verdict = "rejected" if self.rejected else "no difference found"
        return (
            f"{self.check}, {self.protocol}, {self.observer}: {verdict} ({self.statistic}); "
            f"detectable advantage: {self.detectable}"
        )

    def message(self, headline: str) -> str:
        """Several lines, for an error."""
        lines = (
            headline,
            f"  coalition: {self.observer}",
            f"  statistic: {self.statistic}",
            f"  detectable advantage: {self.detectable}",
            *(f"  {note}" for note in self.notes),
        )
        return "\n".join(lines)
