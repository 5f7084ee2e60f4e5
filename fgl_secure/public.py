"""`audit` and `train` as most people call them: with a graph of one's own, or with a method that is set up.

from fgl_secure import audit

audit(data, silos="louvain:5", scheme="relay-coded").write("report")
audit("Cora", method="fedavg", scheme=["plaintext", "pairwise-masking"])
audit(HiFGL(backbone="sage"), "Cora", ["secmp", "relay-coded"])
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from fgl_secure import methods
from fgl_secure.auditing import audit as auditing
from fgl_secure.auditing import train as training
from fgl_secure.auditing.method import Method, Source, check_method
from fgl_secure.auditing.report import Report
from fgl_secure.auditing.train import TrainedRun
from fgl_secure.coins import Coins
from fgl_secure.config_fields import option_values
from fgl_secure.errors import InputError
from fgl_secure.graph import Data, FederatedGraph
from fgl_secure.graph.data import GraphSets
from fgl_secure.graph.own_files import data_warnings
from fgl_secure.host import library_settings
from fgl_secure.methods.seeds import SeedReports, audit_each_seed, checked_seeds
from fgl_secure.progress import show_progress
from fgl_secure.schemes import Assignment
from fgl_secure.threads import one_thread
from fgl_secure.training.loop import Progress

METHOD = "hifgl"
"""What is trained where data come without a method."""

SILOS = 5

Schemes = Iterable[str | Assignment] | str | Assignment


@library_settings()
@one_thread()
def audit(
    of: Any,  # a method, or data of any of the kinds below
    data: Any = None,
    schemes: Schemes = (),
    attacks: Iterable[str] | str = auditing.ALL,
    *,
    method: Method | str | None = None,
    silos: Any = None,
    split: int | None = None,
    scheme: Schemes = (),
    seed: int = 0,
    device: str = "auto",
    command: str = "",
    progress: Callable[[str], Progress] | bool | None = None,
    verbose: bool = True,
    thorough: bool = False,
    ceilings: Mapping[str, float] = MappingProxyType({}),
) -> Report:
    """Trains a method under each of some schemes, attacks every recorded run and reports.

    Args:
        of: a method with its choices, such as `HiFGL(epochs=5)`, or with its defaults, as `HiFGL` or "hifgl"; or the
            data: a name, `Data`, `GraphSets`, a `FederatedGraph`, or PyTorch Geometric's `Data`.
        data: the data, where the method comes first; None takes a data set that needs no download.
        schemes: for each run its schemes: text as in `fgl_secure.schemes`, or schemes by topology. Those that the
            method demonstrates when empty.
        attacks: names; "all" for all that can read the runs; "outputs" for those on the finished model, beside "all" or
            alone.
        method: where the data come first: a method or its name; HiFGL unless given.
        silos: how nodes are dealt to silos: a number, "louvain:5", or an array with the silo of each node; five silos
            at random unless given. Not for data that say it themselves.
        split: of masks [n, k] of a graph of one's own, the column that is taken.
        scheme: the same as `schemes`.
        seed: of partition, split, initial weights and coins: equal seeds give equal reports.
        device: where model compute runs: "auto", "cpu" or "cuda".
        command: how to repeat it, for the report; the call itself unless given.
        progress: whether to show on the standard error stream what is being done: bars on a terminal, a line every 30
            seconds elsewhere. None shows it outside notebooks. Or a function that takes what is being done, in words,
            and returns what to call after each step of it: a round, or an attack.
        verbose: whether to warn, by `DataWarning`, of what is dropped, not used or missing of a graph of one's own.
        thorough: whether distinguishing games are larger, so that they see smaller leaks.
        ceilings: most that figures of the finished model may be, by metric, as {"membership.auc": 0.55}; see
            `Report.above_ceilings`.

    Returns:
        The report: findings, the state of each guarantee, accuracy and costs.

    Raises:
        FglSecureError: a choice breaks a rule, before anything ran; or schemes were named and no attack that was
            chosen measured anything.

    Examples:
        audit(HiFGL(epochs=5), "digits", ["secmp", "relay-coded"]).write("report")
    """
    with data_warnings(verbose=verbose):
        selected_method, source = _resolve_method(of, data, method, silos, split, seed)
        scheme_names = _one_of("scheme", schemes, scheme)
        with _progress_context(progress) as phases:
            report = auditing.audit(
                selected_method, source, scheme_names, attacks, seed=int(seed), device=device, progress=phases,
                thorough=thorough, ceilings=ceilings,
                command=command or _call(selected_method, source, scheme_names, attacks, int(seed), thorough=thorough),
            )  # fmt: skip
    options = _options(selected_method, source, scheme_names, attacks, int(seed), device, thorough=thorough)
    return replace(report, run={**report.run, **options})


@library_settings()
@one_thread()
def audit_seeds(
    of: Any,  # as in `audit`
    data: Any = None,
    schemes: Schemes = (),
    attacks: Iterable[str] | str = auditing.ALL,
    *,
    seeds: int | Iterable[int] = 3,
    method: Method | str | None = None,
    silos: Any = None,
    split: int | None = None,
    device: str = "auto",
    runs: Path | str | None = None,
    progress: Callable[[str], Progress] | bool | None = None,
    verbose: bool = True,
    thorough: bool = False,
) -> SeedReports:
    """Audits a method under several seeds, and gives means over them with intervals.

        from fgl_secure import audit_seeds
        from fgl_secure.methods import FedAvg

        reports = audit_seeds(FedAvg(epochs=5), "digits", ["plaintext", "pairwise-masking"], runs="runs.jsonl")
        reports.to_dataframe().to_csv("findings.csv")

    Args:
        of: as in `audit`.
        data: as in `audit`.
        schemes: as in `audit`.
        attacks: as in `audit`.
        seeds: how many, from 0; or which. Each sets partition, split, initial weights and coins.
        method: as in `audit`.
        silos: as in `audit`.
        split: as in `audit`.
        device: as in `audit`.
        runs: file to which each finished seed is added. A later call with equal options, data, version and sources
            takes what is there, so an interrupted audit goes on with the next seed. None keeps nothing.
        progress: as in `audit`.
        verbose: as in `audit`.
        thorough: as in `audit`.

    Returns:
        The report of each seed, and tables of means over them.

    Raises:
        FglSecureError: a choice breaks a rule, before anything ran.
    """
    with data_warnings(verbose=verbose):
        resolved = {seed: _resolve_method(of, data, method, silos, split, seed) for seed in checked_seeds(seeds)}
        chosen, sources = next(iter(resolved.values()))[0], {seed: source for seed, (_, source) in resolved.items()}
        with _progress_context(progress) as phases:
            return audit_each_seed(
                chosen, sources, schemes, attacks, device=device, runs=None if runs is None else Path(runs),
                command=lambda seed: _call(chosen, sources[seed], schemes, attacks, seed, thorough=thorough),
                progress=phases, thorough=thorough,
            )  # fmt: skip


@library_settings()
@one_thread()
def train(
    of: Any,  # as in `audit`
    data: Any = None,
    scheme: str | Assignment | None = None,
    *,
    method: Method | str | None = None,
    silos: Any = None,
    split: int | None = None,
    seed: int = 0,
    device: str = "auto",
    coins: Coins | None = None,
    progress: Callable[[str], Progress] | bool | None = None,
    verbose: bool = True,
) -> TrainedRun:
    """Trains a method once.

        from fgl_secure import train
        from fgl_secure.methods import FedAvg

        print(train(FedAvg(epochs=5), "digits", "lightsecagg").accuracy.test)

    Args:
        of: as in `audit`.
        data: as in `audit`.
        scheme: the schemes of the run, as text or by topology; None takes those that the method trains under.
        method: as in `audit`.
        silos: as in `audit`.
        split: as in `audit`.
        seed: of partition, split and initial weights.
        device: where model compute runs: "auto", "cpu" or "cuda".
        coins: where masks and noise come from; the operating system's entropy unless given.
        progress: as in `audit`.
        verbose: as in `audit`.

    Returns:
        The run: accuracy, costs, and the plan that it followed.

    Raises:
        FglSecureError: a choice breaks a rule, before anything ran.
    """
    with data_warnings(verbose=verbose):
        selected_method, source = _resolve_method(of, data, method, silos, split, seed)
        with _progress_context(progress) as phases:
            return training.train(
                selected_method, source, scheme, seed=int(seed), device=device, coins=coins, progress=phases
            )


def _progress_context(
    progress: Callable[[str], Progress] | bool | None,
) -> AbstractContextManager[Callable[[str], Progress] | None]:
    if isinstance(progress, bool) or progress is None:
        in_notebook = "ipykernel" in sys.modules  # lines in pipes would be kept as outputs of cells
        return show_progress(quiet=in_notebook if progress is None else not progress)
    if not callable(progress):
        raise InputError(f"progress must be a bool, None or a function; found {type(progress).__name__}")
    return nullcontext(progress)


def _resolve_method(
    of: Any, data: Any, method: Method | str | None, silos: Any, split: int | None, seed: int
) -> tuple[Method, Source | str | None]:
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer):
        raise InputError(f"seed must be an integer; found {seed!r}")
    if method is None and isinstance(of, str) and of in methods.names():
        of = methods.method(of)()
    elif isinstance(of, type) and issubclass(of, Method):
        of = of()
    if isinstance(of, Method):
        if method is not None:
            raise InputError(f"method must be given once; found {of.name} and {method!r}")
        return of, _source(of, data, silos, split, seed)
    if data is not None:
        raise InputError(
            f"of must be a method, such as fgl_secure.methods.HiFGL() or 'hifgl', where data come second; found "
            f"{of if isinstance(of, str) else type(of).__name__}"
        )
    if isinstance(method, type) and issubclass(method, Method):
        method = method()
    method_object = methods.method(METHOD if method is None else method)() if isinstance(method, str | None) else method
    check_method(method_object)
    return method_object, _source(method_object, of, silos, split, seed)


def _source(method: Method, data: Any, silos: Any, split: int | None, seed: int) -> Source | str | None:
    """Data of any kind as those that methods take."""
    given_arguments = [(name, value) for name, value in (("silos", silos), ("split", split)) if value is not None]
    if given_arguments and method.data is not Data:
        name, value = given_arguments[0]
        raise InputError(f"{name} must not be given for {method.name}, whose data say who has what; found {value!r}")
    if isinstance(silos, bool | float | np.floating):
        raise InputError(f"silos must be a number of silos, PARTITION:K, or one integer per node; found {silos!r}")
    source = os.fspath(data) if isinstance(data, os.PathLike) else data
    if method.data is Data and not isinstance(source, str | Data | GraphSets | FederatedGraph | None):
        return FederatedGraph.from_pyg(source, SILOS if silos is None else silos, seed=seed, split=split)
    if not given_arguments:
        result: Source | str | None = source  # a name is read by the method, which knows what it stands for
        return result
    if not isinstance(source, str | None) or not isinstance(silos, str | int | np.integer | None):
        name, value = given_arguments[0]
        raise InputError(
            f"{name} must go with a graph of PyTorch Geometric, or, as a number or PARTITION:K, with the name of data; "
            f"found {type(value).__name__} with {type(source).__name__}"
        )
    name, _, count = str(SILOS if silos is None else silos).rpartition(":")
    if not count.isdecimal():
        raise InputError(f"silos must be a number, or PARTITION:K such as louvain:5; found {silos!r}")
    return Data(source or "digits", name or "random", int(count), split=split)


def _one_of(name: str, first: Schemes, second: Schemes) -> Schemes:
    if first and second:
        raise InputError(f"{name} must be given once; found {first!r} and {second!r}")
    return second or first


def _options(
    method: Method,
    data: Source | str | None,
    schemes: Schemes,
    attacks: Iterable[str] | str,
    seed: int,
    device: str,
    *,
    thorough: bool,
) -> dict[str, object]:
    """Return options of the command line that repeat an audit, for run.toml; nothing if there are none."""
    scheme_list, attack_list = ([item] if isinstance(item, str) else list(item) for item in (schemes, attacks))
    if isinstance(data, FederatedGraph) or not all(isinstance(item, str) for item in scheme_list):
        return {}
    try:
        source = {} if data is None else option_values(method.data(data) if isinstance(data, str) else data)
        chosen = option_values(method)
    except InputError:  # a field that no option sets
        return {}
    runs = {"scheme": scheme_list, "attack": attack_list, "seed": seed, "device": device, "thorough": thorough}
    return {"options": {"command": "audit", "method": method.name, **source, **chosen, **runs}}


def _call(
    method: Method,
    data: Source | str | None,
    schemes: Schemes,
    attacks: Iterable[str] | str,
    seed: int,
    *,
    thorough: bool,
) -> str:
    """Return the statements that repeat an audit, for the report; a graph of one's own is named by what it is."""
    kind = type(method)
    place = methods.__name__ if kind.__name__ in methods.__all__ else kind.__module__
    is_object = isinstance(data, Data | GraphSets)
    source = [] if data is None else [repr(data)]
    arguments = [f"schemes={schemes!r}"] if schemes else []
    arguments += [f"attacks={attacks!r}"] if attacks != auditing.ALL else []
    arguments += [f"seed={seed}", *(["thorough=True"] if thorough else [])]
    call = f"audit({', '.join([repr(method), *source, *arguments])})"
    imported = f"from {Data.__module__} import {type(data).__name__}; " if is_object else ""
    return f"from fgl_secure import audit; from {place} import {kind.__name__}; {imported}{call}"
