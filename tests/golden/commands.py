"""From the name of a golden case to the command that gives its figures today, and from what it says to tables.

This is the one place that knows the command line, the report's layout and today's names. When one of these changes,
this file changes, and the golden files stay as they are; a name that changed is added to `NAMES`.
"""

import contextlib
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any
from unittest.mock import patch

import numpy as np

from fgl_secure.cli.main import OK, VIOLATED, main
from fgl_secure.methods.fed2gnn import audit_target
from fgl_secure.methods.fedspray import audit_runs
from tests.golden.figures import Figures, Loose, Row
from tests.graphs import first_digits
from tests.methods.fed2gnn.small import hurried_preset

NAMES: Mapping[str, str] = MappingProxyType({})
"""Today's name of a scheme, an attack, a metric, an observer, a role or a phase: its name in the golden files."""

FEW, ADDITIONS = 200, 4
"""Digits in cases that take long with all, and rounds of FedSpray that are run for attacks alone."""

SERVER_SUMS = ("plaintext", "pairwise-masking", "lightsecagg", "ckks-shared-key")
UPDATE_ATTACKS = (
    "gradient-labels", "gradient-single-row", "gradient-single-neighbours", "gradient-span", "gradient-filter",
    "sum-membership", "round-disaggregation",
)  # fmt: skip
"""All attacks on updates but the inversions, whose descents over thousands of steps let last digits grow."""


@dataclass(frozen=True, slots=True)
class Case:
    """What is run, and how closely it comes out the same everywhere.

    Attributes:
        file: the golden file, without its ending; cases of training share one, with a row each.
        words: of the command line.
        loose: figures that differ between processors, or between runs.
        public: whether the command reads the raw public data.
        few: whether it is small: the first `FEW` digits in the place of 1,797, and a few passes of decoders.
    """

    file: str
    words: tuple[str, ...]
    loose: tuple[Loose, ...] = ()
    public: bool = False
    few: bool = False


def _each(option: str, names: Sequence[str]) -> tuple[str, ...]:
    return tuple(word for name in names for word in (option, name))


def _audit(method: str, *words: str) -> tuple[str, ...]:
    return ("audit", method, "--epochs", "1", "--device", "cpu", *words)


def _train(method: str, *words: str) -> tuple[str, ...]:
    return ("train", method, "--device", "cpu", *words)


ACCURACY = ("test", "validation", "silos")
MEASURED = ("value", "interval", "detectable", "null", "clear")
COST = ("messages", "bytes", "bytes by phase")
UNTRAINED = "a model of two rounds is undecided about some nodes, and a last digit decides"
DEEP = "two hundred passes of each client's decoder come before the first round, and last digits grow"
DRAWN = (
    "edges are drawn by chances from a network; a last digit changes a draw, on which all later ones and the choice of "
    "the round depend"
)
FOLLOWED = "a row is read where a quotient of gradients is close to it, and some quotients are close to the bound"
ROUNDED = "rows that differ by rounding may be one"
SHOWN = "relay-coded[p=2305843009213693951,graph-shown]"
NEAREST = "generators are fitted to the nearest rows, and a last digit decides which row is nearest"
ANY = 1.0
"""A tolerance for shares that leaves them out: one processor's say nothing of another's."""


def _accuracies(tolerance: float, why: str) -> tuple[Loose, ...]:
    """Of training runs, and in the reports of audits."""
    return tuple(Loose(table, ACCURACY, tolerance, why) for table in ("training", "scores"))


_LOOSE = {
    "hifgl": (
        *_accuracies(0.03, UNTRAINED),
        *(
            Loose(f"findings: {rows}", ("n", "prior", "detectable"), 0.02, ROUNDED)
            for rows in ("secmp | shared-mask", "relay-coded | share-differences")
        ),
        Loose("findings", ("prior", "interval", "detectable"), 0.02, "the same: the likeliest row is guessed"),
        Loose("findings: secmp | containment-silo", ("prior",), 1e-4, "one pair more or less in some millions"),
    ),
    "fedstruct": (
        *_accuracies(0.03, UNTRAINED),
        *(
            Loose(f"findings: {scheme} | nsf-cosine", MEASURED, 1e-4, "near equal cosines are ranked")
            for scheme in ("plaintext", "pairwise-masking", "ckks")
        ),
        *(
            Loose(f"findings: hopwise[{SHOWN}] | {attack}", ("n", "prior", "detectable", "interval"), 0.02, ROUNDED)
            for attack in ("share-differences", "single-shares")
        ),
    ),
    "fedspray": _accuracies(0.03, UNTRAINED),
    "fed2gnn": _accuracies(0.05, DEEP),
    "fedgcn": _accuracies(0.03, UNTRAINED),
    "fedsage": (
        *_accuracies(0.1, NEAREST),
        Loose("findings: plaintext | generator-gradient-rows", MEASURED, 0.05, FOLLOWED),
        Loose("findings: pairwise-masking | generator-gradient-rows", MEASURED, 0.05, FOLLOWED),
    ),
    "ditto": _accuracies(0.03, UNTRAINED),
    "gcfl": _accuracies(0.03, UNTRAINED),
    "fedstar": _accuracies(0.03, UNTRAINED),
    "fedpub": _accuracies(0.03, UNTRAINED),
    "fedvn": (
        *_accuracies(ANY, DRAWN),
        Loose("findings", MEASURED, 0.1, DRAWN),
        Loose("findings: plaintext | virtual-node-labels | commonest label", MEASURED, ANY, "one client of three"),
    ),
    "fedavg": (
        *_accuracies(0.03, UNTRAINED),
        *(
            Loose(f"findings: {scheme} | gradient-span", MEASURED, 0.1, "residuals of rounding are ranked")
            for scheme in ("plaintext", "pairwise-masking")
        ),
        *(
            Loose(f"findings: {scheme} | gradient-span", ("null",), 0.5, "the same, of four clients moved on")
            for scheme in ("plaintext", "pairwise-masking", "plaintext[batches of 4]", "pairwise-masking[batches of 4]")
        ),
    ),
}
_UNCERTAIN = tuple(
    Loose(table, columns, tolerance, "a silo of the few digits tests on eight of them, and one may fall either way")
    for table in ("training", "scores")
    for columns, tolerance in ((("silos",), 0.26), (("test", "validation"), 0.11))
)
_SKETCHED = Loose(
    "training", COST, 0.5, "training draws its coins afresh, and a sketch that can't be read is sent again"
)

_AUDITS = {
    "hifgl": (),
    "fedstruct": _each("--scheme", ("clients=plaintext", "pairwise-masking", "relay-coded")),
    "fedspray": (),
    "fed2gnn": (),
    "fedvn": (),
    "fedgcn": (),
    "fedsage": ("--generator-rounds", "2"),
    "fedpub": (),
    "fedstar": (),
    "gcfl": _each("--attack", ("gradient-labels", "gradient-single-row")),
    "ditto": _each("--attack", ("gradient-labels", "gradient-single-row")),
    "fedavg": _each("--attack", UPDATE_ATTACKS),
}
_SECURE = {
    "fedspray": "pairwise-masking",
    "fedvn": "lightsecagg",
    "ditto": "ckks-shared-key",
    "gcfl": "pairwise-masking",
    "fedstar": "lightsecagg",
}
_TRAININGS = {
    "hifgl/plaintext": ("--scheme", "plaintext"),
    "hifgl/secmp": ("--scheme", "secmp"),
    "hifgl/relay-coded": ("--scheme", "relay-coded"),
    "hifgl/relay-coded-shown": ("--scheme", "relay-coded[graph-shown]"),
    **{f"fedstruct/{name}": ("--scheme", f"clients={name}") for name in ("plaintext", "ckks", "pairwise-masking")},
    "fedstruct/hopwise": ("--scheme", "relay-coded"),
    "fedstruct/hopwise-plaintext": ("--scheme", "neighbours=plaintext"),
    **{f"fedavg/{name}": ("--scheme", name) for name in SERVER_SUMS},
    # One secure sum each: schemes sum whatever vectors they are given.
    **{f"{method}/{name}": ("--scheme", name) for method, secure in _SECURE.items() for name in ("plaintext", secure)},
    "fed2gnn/plaintext+plaintext": ("--scheme", "neighbours=plaintext,server=plaintext"),
    "fed2gnn/relay-coded+pairwise-masking": ("--scheme", "neighbours=relay-coded,server=pairwise-masking"),
    **{f"fedsage/{name}": ("--generator-rounds", "2", "--scheme", name) for name in ("plaintext", "pairwise-masking")},
    "fedgcn/plaintext": ("--scheme", "plaintext"),
    "fedgcn/relay-coded": ("--scheme", "relay-coded"),
    **{f"fedpub/{name}": ("--scheme", f"clients={name}") for name in ("plaintext", "lightsecagg")},
}
_FEW = ("audit/fedspray", "audit/fed2gnn", "audit/fedstruct", "audit/hifgl", "train/fed2gnn", "train/fedstruct")
_SKETCHES = ("fedstruct/ckks", "fedstruct/pairwise-masking")

_CORA_AUDITS = {
    "hifgl": ("hifgl", _each("--scheme", ("secmp", "relay-coded"))),
    "fedstruct": ("fedstruct", ("--silos", "10", *_each("--scheme", ("clients=plaintext", "clients=ckks")))),
    "fedstruct-hopwise": ("fedstruct", ("--silos", "10", "--scheme", "relay-coded[k_min=1]")),
    "fed2gnn": ("fed2gnn", ("--partition", "louvain", "--silos", "10")),
    "fedavg": ("fedavg", _each("--attack", UPDATE_ATTACKS)),
}
_CORA_TRAININGS = {
    "plaintext/seed-0": ("--scheme", "plaintext", "--seed", "0"),
    "plaintext/seed-1": ("--scheme", "plaintext", "--seed", "1"),
    "secmp/seed-0": ("--scheme", "secmp", "--seed", "0"),
    "relay-coded-1/seed-0": ("--scheme", "relay-coded[k_min=1,graph-shown]", "--seed", "0"),
    **{
        f"relay-coded-{k}/seed-{seed}": ("--scheme", f"relay-coded[k_min={k},graph-shown]", "--seed", seed)
        for k in "23"
        for seed in "01"
    },
}


def _loose(method: str, few: bool) -> tuple[Loose, ...]:
    return (*_LOOSE[method], *(_UNCERTAIN if few else ()))


def _audits() -> Iterator[tuple[str, Case]]:
    for method, words in _AUDITS.items():
        name = f"audit/{method}"
        few = name in _FEW
        yield name, Case(f"audit-{method}", _audit(method, *words), _loose(method, few), few=few)


def _trainings() -> Iterator[tuple[str, Case]]:
    for name, words in _TRAININGS.items():
        method = name.split("/")[0]
        few = f"train/{method}" in _FEW
        loose = (*_loose(method, few), *((_SKETCHED,) if name in _SKETCHES else ()))
        yield f"train/{name}", Case("train", _train(method, "--epochs", "2", *words), loose, few=few)


def _readme() -> Iterator[tuple[str, Case]]:
    """Cora in five random silos, unless a table of the README says otherwise."""
    for name, (method, words) in _CORA_AUDITS.items():
        command = _audit(method, "--dataset", "Cora", *words)
        yield f"Cora/audit/{name}", Case(f"Cora-audit-{name}", command, _LOOSE[method], public=True)
    for name, words in _CORA_TRAININGS.items():
        command = _train("hifgl", "--dataset", "Cora", *words)
        yield f"Cora/train/hifgl/{name}", Case("Cora-train", command, _LOOSE["hifgl"], public=True)


CASES: Mapping[str, Case] = MappingProxyType(dict([*_audits(), *_trainings(), *_readme()]))
"""Every golden case by name."""


def figures_of(name: str, folder: Path) -> Figures:
    """Runs a case.

    Args:
        name: one of `CASES`.
        folder: where the command may write.
    """
    if not CASES[name].few:
        return _figures(name, CASES[name].words, folder)
    words = (*CASES[name].words, "--dataset", str(_few_digits(folder / "digits.npz")))
    with patch.object(audit_runs, "ADDITIONS", ADDITIONS), patch.object(audit_target, "fed2gnn_preset", hurried_preset):
        return _figures(name, words, folder)


def _figures(name: str, words: tuple[str, ...], folder: Path) -> Figures:
    if words[0] == "train":
        return {"training": [_training(name, json.loads(_said((*words, "--json"))))]}
    _said((*words, "--out", str(folder)))
    return _audit_to_json(json.loads((folder / "report.json").read_text(encoding="utf-8")))


def _few_digits(path: Path) -> Path:
    """Writes the first `FEW` digits as a user's own graph."""
    few = first_digits(FEW)
    np.savez(path, x=few.features, y=few.labels, edge_index=few.edges)
    return path


def _said(words: tuple[str, ...]) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as errors:
        status = main(words)
    if status not in (OK, VIOLATED):
        raise RuntimeError(f"fgl-secure {' '.join(words)} must run; exit status {status}: {errors.getvalue()}")
    return out.getvalue()


def _training(name: str, said: Mapping[str, Any]) -> Row:
    """A row for a training run: how good, and at what cost."""
    return {
        "case": name,
        "scheme": _golden(said["protocol"]),
        **_score(said["accuracy"]),
        **_cost(said["cost"]),
        "bytes by phase": {_golden(phase): size for phase, size in sorted(said["cost"]["bytes_by_phase"].items())},
    }


def _audit_to_json(report: Mapping[str, Any]) -> Figures:
    """The tables of a report, without sentences about findings, times, and what depends on the machine."""
    return {
        "scores": [
            {"scheme": _golden(scheme), **_score(score), **_cost(report["cost"]["protocols"][scheme])}
            for scheme, score in report["accuracy"]["protocols"].items()
        ],
        "findings": [_finding(record) for record in report["records"]],
        "traffic": [_traffic(exposure) for exposure in report["exposures"]],
        "claims": [
            {"scheme": _golden(scheme), "kind": kind, "sentence": sentence}
            for scheme, claim in report["claims"].items()
            for kind in ("protects", "leaks_by_design", "assumes")
            for sentence in claim.get(kind, ())
        ],
    }


def _finding(record: Mapping[str, Any]) -> Row:
    return {
        "scheme": _golden(record["protocol"]),
        "attack": _golden(record["attack"]),
        "metric": _golden(record["metric"]),
        "observer": _golden(record["view"]),
        "value": record["value"],
        "interval": record["ci95"],
        "prior": record["prior"],
        "n": record["n"],
        "verdict": record["verdict"],
        "violates": record["violates_guarantee"],
        "detectable": record["detectable_advantage"],
        "null": record["null_control"],
        "clear": record["in_the_clear"],
    }


def _traffic(exposure: Mapping[str, Any]) -> Row:
    return {
        "scheme": _golden(exposure["protocol"]),
        "phase": _golden(exposure["phase"]),
        "sender": _golden(exposure["sender_role"]),
        "receiver": _golden(exposure["receiver_role"]),
        "messages": exposure["messages"],
        "bytes": exposure["bytes"],
    }


def _score(accuracy: Mapping[str, Any]) -> Row:
    return {"test": accuracy["test"], "validation": accuracy["validation"], "silos": accuracy["per_silo"]}


def _cost(cost: Mapping[str, Any]) -> Row:
    return {"rounds": cost["rounds"], "messages": cost["messages"], "bytes": cost["bytes"]}


def _golden(name: str) -> str:
    return NAMES.get(name, name)
