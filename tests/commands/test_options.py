from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fgl_secure.algebra import Overflow
from fgl_secure.commands.options import Options, prepare
from fgl_secure.errors import (
    DataNotFoundError,
    DeviceUnavailableError,
    FglSecureError,
    FieldRangeError,
    InputError,
    UnknownNameError,
)
from fgl_secure.protocols.registry import Parameters

DEFAULT = Options(device="cpu")


@pytest.mark.parametrize(
    ("change", "known"),
    [
        ({"dataset": "Imagenet"}, "digits, Cora, CiteSeer, PubMed"),
        ({"partition": "metis"}, "random, louvain"),
        ({"backbone": "gat"}, "gcn, sage"),
        ({"preset": "best"}, "honest, paper"),
        ({"method": "fedprox"}, "hifgl"),
        ({"device": "tpu"}, "auto, cpu, cuda"),
    ],
)
def test_unknown_names_are_refused_with_the_known_ones(change: dict[str, Any], known: str) -> None:
    """A name that does not exist is refused, and the message lists those that do and the one that was found."""
    with pytest.raises(UnknownNameError) as refused:
        prepare(replace(DEFAULT, **change), ("secmp",))
    assert known in str(refused.value)
    assert repr(next(iter(change.values()))) in str(refused.value)


def test_unknown_protocols_are_refused_with_the_known_ones() -> None:
    """A protocol that does not exist is refused, among known ones too."""
    with pytest.raises(UnknownNameError, match="protocol must be one of plaintext, secmp, relay-coded; found 'magic'"):
        prepare(DEFAULT, ("secmp", "magic"))


@pytest.mark.parametrize(
    ("change", "kind", "message"),
    [
        ({"silos": 0}, InputError, "silos must be in 1..1797"),
        ({"silos": -3}, InputError, "found -3"),
        ({"silos": 1798}, InputError, "found 1798"),
        ({"epochs": 0}, InputError, "epochs must be at least 1; found 0"),
        ({"epochs": -1}, InputError, "epochs must be at least 1; found -1"),
        ({"seed": -1}, InputError, "seed must lie in"),
        ({"seed": 2**63}, InputError, "seed must lie in"),
        ({"parameters": Parameters(modulus=12)}, FieldRangeError, "prime; found 12"),
        ({"parameters": Parameters(modulus=11, T=5)}, FieldRangeError, "enough for T <= 4"),
        ({"parameters": Parameters(T=0)}, InputError, "T must be at least 1; found 0"),
        ({"parameters": Parameters(modulus=11)}, FieldRangeError, "must stay below p / 2 = 5.5"),
        ({"parameters": Parameters(fraction_bits=30)}, FieldRangeError, "must stay below p / 2"),
        ({"parameters": Parameters(bound=-1.0)}, InputError, "bound must be a positive number"),
    ],
)
def test_rules_are_checked_before_anything_runs(
    change: dict[str, Any], kind: type[FglSecureError], message: str
) -> None:
    """Every number out of its range is refused with the rule and the value."""
    with pytest.raises(kind) as refused:
        prepare(replace(DEFAULT, **change), ("secmp",))
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_coding_parameters_do_not_concern_plaintext() -> None:
    """A field that is too small for sums is no obstacle to a protocol without a field."""
    assert prepare(replace(DEFAULT, parameters=Parameters(modulus=11)), ("plaintext",)).schemes[0].name == "plaintext"


def test_a_small_field_runs_when_wrapping_is_asked_for() -> None:
    """The paper's field is accepted by those who ask for sums that wrap."""
    small = replace(DEFAULT, parameters=Parameters(modulus=11, overflow=Overflow.WRAP))
    assert prepare(small, ("secmp",)).schemes[0].public.modulus == 11


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has CUDA")
def test_absent_cuda_is_refused() -> None:
    """CUDA that is asked for and absent is refused."""
    with pytest.raises(DeviceUnavailableError, match="CUDA"):
        prepare(replace(DEFAULT, device="cuda"), ("secmp",))


def test_auto_takes_what_there_is() -> None:
    """The automatic device is CUDA where there is one, and otherwise the CPU."""
    expected = "cuda" if torch.cuda.is_available() else "cpu"
    assert prepare(replace(DEFAULT, device="auto"), ("secmp",)).device.type == expected


def test_a_folder_without_the_files_is_named(tmp_path: Path) -> None:
    """Missing raw files are refused with where they were looked for and how to get them, and nothing is written."""
    with pytest.raises(DataNotFoundError) as refused:
        prepare(replace(DEFAULT, dataset="Cora", data_root=tmp_path), ("secmp",))
    assert str(tmp_path) in str(refused.value)
    assert "ind.cora.x" in str(refused.value)
    assert "download" in str(refused.value)
    assert not list(tmp_path.iterdir())


def test_equal_choices_prepare_equal_graphs() -> None:
    """Partition and split repeat by seed, and another seed gives others."""
    first, again, other = (prepare(replace(DEFAULT, seed=seed), ("secmp",)).graph for seed in (1, 1, 2))
    assert np.array_equal(first.silo_of, again.silo_of)
    assert np.array_equal(first.train_mask, again.train_mask)
    assert not np.array_equal(first.silo_of, other.silo_of)


def test_the_paper_preset_hears_within_splits_only() -> None:
    """Under the published preset messages stay within a split, under the honest one they use all edges."""
    paper, honest = (prepare(replace(DEFAULT, preset=name), ("secmp",)) for name in ("paper", "honest"))
    assert paper.heard.edges.shape[1] < paper.graph.edges.shape[1]
    assert honest.heard.edges.shape[1] == honest.graph.edges.shape[1]


def test_presets_follow_the_data_set_whatever_its_case(data_root: Path) -> None:
    """The published settings of CiteSeer are taken when its name is written in lower case."""
    prepared = prepare(replace(DEFAULT, dataset="citeseer", preset="paper", data_root=data_root), ("secmp",))
    assert prepared.graph.graph.name == "CiteSeer"
    assert prepared.preset.dropout == 0.1
