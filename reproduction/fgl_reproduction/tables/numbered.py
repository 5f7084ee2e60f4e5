"""All numbered tables and figures of the five papers, and one appendix: their names for `reproduce`, or reasons."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NumberedTable:
    """A numbered table or figure of a paper.

    Attributes:
        paper: short name.
        number: "Table 1", or a part of it, "Figure 4(d)".
        tables: names for `reproduce`; none where there is none.
        why: why there is none, or what of it is missing; empty where all of it is there.
    """

    paper: str
    number: str
    tables: tuple[str, ...] = ()
    why: str = ""

    @property
    def name(self) -> str:
        """What a listing calls it, one word: "hifgl:table1"."""
        return f"{self.paper.lower()}:{self.number.lower().replace(' ', '').replace('(', '').replace(')', '')}"

    @property
    def says(self) -> str:
        """In one line."""
        result = f"reproduce {', '.join(self.tables)}" if self.tables else "none"
        return f"{self.paper}, {self.number}: {result}{f'; {self.why}' if self.why else ''}"


_DRAWING = "a drawing, nothing is measured"
_SETTINGS = "settings, which the presets have"
_RATIO = "Amazon Ratings is not available"
_WIKI = "WikiCS is not available"


def _of(paper: str, **result: tuple[str, ...] | str) -> tuple[NumberedTable, ...]:
    """By number, `table1` or `figure1`: a reason, or names for `reproduce` and, last and with a blank, a reason."""
    made = []
    for key, value in result.items():
        kind, number = ("Table", key.removeprefix("table")) if key.startswith("table") else ("Figure", key[6:])
        parts = (value,) if isinstance(value, str) else value
        names = tuple(part for part in parts if " " not in part)
        made.append(NumberedTable(paper, f"{kind} {number}", names, "".join(part for part in parts if " " in part)))
    return tuple(made)


NUMBERED: tuple[NumberedTable, ...] = (
    *_of(
        "HiFGL",
        table1="ratings of methods, nothing is measured",
        table2=("hifgl-table2",),
        table3=("hifgl-table3",),
        table4=("hifgl-table4", "FedPerGNN is not implemented"),
        table5=("hifgl-table5",),
        table6=("hifgl-table6",),
        figure1=_DRAWING,
        figure2=_DRAWING,
        figure3=_DRAWING,
        figure4=("hifgl-fig4",),
        figure5=("hifgl-fig5",),
    ),
    NumberedTable("HiFGL", "Appendix A.4", ("hifgl-a4",)),
    *_of(
        "FedStruct",
        table1=("fedstruct-table1",),
        table2=("fedstruct-table2", _RATIO),
        table3="properties of structure features, nothing is measured",
        table4=("fedstruct-table4", _RATIO),
        table5=_SETTINGS,
        table6=("fedstruct-table6", _RATIO),
        table7=("fedstruct-table7", _RATIO),
        table8=("fedstruct-table8", _RATIO),
        table9=("fedstruct-table9",),
        figure1=("fedstruct-fig1", _RATIO),
        figure2=_DRAWING,
        figure3="pictures of a matrix before and after pruning; what pruning changes is fedstruct-table7",
        figure4=(
            "fedstruct-fig4",
            "fedstruct-fig4d",
            "without the curves of GNNs over their layers in part (b)",
        ),
        figure5=_DRAWING,
        figure6=("fedstruct-fig6",),
    ),
    *_of(
        "FedSpray",
        table1=("fedspray-table1",),
        table2=("fedspray-table2", f"APFL and FedLit are not implemented; {_WIKI}, nor is Flickr"),
        table3=("fedspray-table3",),
        table4=("fedspray-table4", f"{_WIKI}, nor is Flickr"),
        table5=("fedspray-table5", f"on PubMed, for {_WIKI}"),
        figure1=_DRAWING,
        figure2=("fedspray-fig2",),
        figure3=_DRAWING,
        figure4=("fedspray-fig4", f"part (a), for {_WIKI}"),
        figure5=("fedspray-fig5", f"part (b), for {_WIKI}"),
    ),
    *_of(
        "Fed2GNN",
        table1=("fed2gnn-table1",),
        table2=("fed2gnn-table2",),
        table3=("fed2gnn-table3",),
        table4=("fed2gnn-table4",),
        table5="ranges that were searched",
        table6=_SETTINGS,
        figure1=_DRAWING,
        figure2=_DRAWING,
        figure3=("fed2gnn-fig3",),
        figure4=("fed2gnn-fig4",),
        figure5=("fed2gnn-fig5", "losses alone, training accuracies are not counted"),
        figure6=("fed2gnn-fig6",),
        figure7=("fed2gnn-fig7", "without the lines of FedGCN and FedGraph"),
        figure8=("fed2gnn-fig8",),
    ),
    *_of(
        "FedVN",
        table1=(
            "fedvn-table1",
            "fedvn-table1-zinc",
            "FedRep and FedALA are not implemented; of SST2 there are no sentence features",
        ),
        table2=("fedvn-table2",),
        table3=_SETTINGS,
        figure1=_DRAWING,
        figure2=(
            "fedvn-fig2",
            "on CMNIST alone, for of SST2 there are no sentence features; FedRep and FedALA are not implemented",
        ),
        figure3=("fedvn-fig3a", "fedvn-fig3b", "part (a) on Motif, for of SST2 there are no sentence features"),
        figure4=("fedvn-fig4",),
        figure5="Figure 4 on SST2, of which there are no sentence features",
        figure6=("fedvn-fig6",),
    ),
)  # fmt: skip
