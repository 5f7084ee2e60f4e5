from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fgl_secure.attacks.gradients.inversion import Effort
from fgl_secure.attacks.gradients.model import Activation, Convolution
from fgl_secure.cli import inversion as inversion_cli
from fgl_secure.cli.inversion import options_of
from fgl_secure.coins import SimulationCoins
from fgl_secure.dp.accountant import gaussian_epsilon
from fgl_secure.errors import FglSecureError, InputError
from fgl_secure.methods.fedavg.inversion import gallery as gallery_module
from fgl_secure.methods.fedavg.inversion.gallery import gallery
from fgl_secure.methods.fedavg.inversion.invert import ATTACKS, invert
from fgl_secure.methods.fedavg.inversion.options import InvertOptions
from fgl_secure.methods.fedavg.inversion.page import picture_svg, render_inversion
from fgl_secure.methods.fedavg.noisy_updates import GradientNoise
from fgl_secure.methods.fedavg.small_rounds import full_batches, small_trees
from fgl_secure.schemes import names


def parsed(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    inversion_cli.add_arguments(parser)
    return parser.parse_args(words)


def test_options_of_an_empty_command_line_are_the_defaults() -> None:
    """The defaults that --help prints are those of the options."""
    assert options_of(parsed()) == InvertOptions()


def test_names_on_the_command_line_are_those_that_there_are() -> None:
    """Choices that the parser lists without loading anything are exactly the names that the package knows."""
    assert set(inversion_cli.BACKBONES) == set(Convolution)
    assert set(inversion_cli.ATTACKS) == set(ATTACKS)
    assert set(inversion_cli.SCHEMES) == set(names("server"))
    assert set(inversion_cli.ACTIVATIONS) == {each.value for each in Activation}


def test_the_parser_loads_nothing_heavy() -> None:
    """Help needs neither torch nor numpy."""
    code = "import sys, fgl_secure.cli.inversion; sys.exit(bool({'torch', 'numpy'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    ("changed", "told"),
    [({"backbone": "gat"}, "backbone"), ({"attack": "x-ray"}, "attack"), ({"activation": "tanh"}, "activation"),
     ({"scheme": "rot13"}, "scheme"), ({"batch": 0}, "batch"), ({"steps": 0}, "steps"), ({"restarts": 0}, "restarts"),
     ({"delta": 1.0}, "delta"), ({"silos": 1, "scheme": "ckks-shared-key"}, "silos"),
     ({"attack": "analytic", "batch": 2}, "batch"),
     ({"attack": "span", "steps": 9}, "steps"), ({"noise": 0.0}, "noise"), ({"noise": 0.1, "clip": -1.0}, "clip"),
     ({"noise": float("nan")}, "noise"), ({"dataset": "cats"}, "cats"), ({"batch": 999}, "batch must lie in"),
     ({"seed": -1}, "seed")],
)  # fmt: skip
def test_bad_choices_are_refused_in_words(changed: dict[str, object], told: str) -> None:
    """Every choice out of range is refused with a message that names it."""
    with pytest.raises(FglSecureError, match=told):
        invert(InvertOptions(**changed))  # type: ignore[arg-type]


def test_an_attack_that_can_read_nothing_says_so() -> None:
    """Rows of single clients are not in a sum, and that is bad input and no empty result."""
    with pytest.raises(InputError, match="analytic makes nothing"):
        invert(InvertOptions(attack="analytic", scheme="pairwise-masking"))


@pytest.mark.parametrize("scheme", ["plaintext", "pairwise-masking"])
def test_a_run_prints_and_writes_the_same_figures(scheme: str, tmp_path: Path) -> None:
    """JSON on the terminal is what the file says, and the page holds a picture of each node and refers to nothing."""
    words = ("--attack", "joint", "--steps", "2", "--restarts", "1", "--scheme", scheme, "--noise", "0.1")
    told = json.loads(inversion_cli.output_of(parsed(*words, "--json", "--out", str(tmp_path)), "fgl-secure attack"))
    assert told == json.loads((tmp_path / "inversion.json").read_text(encoding="utf-8"))
    assert told["summed"] is (scheme != "plaintext")
    assert {"edge AUC", "GSM-0", "GSM-1", "GSM-2", "FULL"} <= set(told["structure"]["means"])
    assert told["rows"]["this run"]["rows"] == 5
    page = (tmp_path / "inversion.html").read_text(encoding="utf-8")
    assert page.count("<svg") == 3 * 5
    assert not any(word in page for word in ("<script", "src=", "href=", "@import"))
    assert "epsilon 92" in inversion_cli.output_of(parsed(*words), "fgl-secure attack")


def test_rows_that_are_no_pictures_are_not_drawn(tmp_path: Path) -> None:
    """A graph of the caller's own has figures and no pictures."""
    trees = small_trees(0)
    np.savez(tmp_path / "trees.npz", x=trees.features, y=trees.labels, edge_index=trees.edges)
    options = InvertOptions(str(tmp_path / "trees.npz"), silos=2, attack="dlg", steps=2, restarts=1)
    result = invert(options)
    assert result.rows is not None
    assert "<svg" not in render_inversion(result, "")


def test_single_nodes_are_read_in_closed_form() -> None:
    """The analytic attack reads every row of one layer exactly, and nothing of permuted truth."""
    result = invert(InvertOptions(attack="analytic", backbone="gcn"))
    assert [(each.found.value, each.null.value) for each in result.figures] == [(1, 0)]
    assert result.rows is None


def test_noise_has_the_stated_width_and_price() -> None:
    """Entries differ from the cut gradient by Gaussian noise of width z C, and epsilon is the Gaussian's or more."""
    noise, rows = GradientNoise(0.5, clip=2.0), np.full((1, 10_000), 1.0, dtype=np.float32)
    moved = noise.applied(rows, SimulationCoins(0)) - 2.0 / 100
    assert abs(float(moved.std()) - 1.0) < 0.03
    assert abs(float(moved.mean())) < 0.04
    exact = gaussian_epsilon(0.5, 1e-5)
    assert exact < noise.epsilon(10_000, 1e-5) < 1.1 * exact


def test_short_gradients_are_not_stretched() -> None:
    """A gradient below the clipping norm is left as it is, up to noise and half a step."""
    noise, rows = GradientNoise(1e-4), np.full((1, 4), 0.25, dtype=np.float32)
    assert np.allclose(noise.applied(rows, SimulationCoins(0)), 0.25, atol=1e-3)


def test_batches_are_of_each_silos_own_labelled_nodes() -> None:
    """Every silo draws as many of its labelled nodes as asked for, and no more than there are."""
    graph = small_trees(0)
    for silo, batch in enumerate(full_batches(graph, 3, 1)):
        assert len(set(batch.tolist())) == 3
        assert set(graph.silo_of[batch]) == {silo}
    with pytest.raises(InputError, match=r"1\.\.8, the labelled nodes of silo 0; found 9"):
        full_batches(graph, 9, 1)


def test_pictures_are_black_for_ones_and_white_for_zeros() -> None:
    """A full entry is a black square in its place, an empty one is left white, and so is what lies below."""
    drawn = picture_svg(np.array([0.0, 1.0, -3.0, np.nan]), (2, 2), "a < b")
    assert '<path fill="#000000" d="M1 0h1v1h-1z"/>' in drawn
    assert drawn.count("<path") == 1
    assert "a &lt; b" in drawn


def test_a_gallery_shows_the_same_nodes_under_each_protection(monkeypatch: pytest.MonkeyPatch) -> None:
    """Originals first, then the prior, the clear, sums, larger batches and noise with its epsilon."""
    monkeypatch.setattr(gallery_module, "EFFORT", Effort(1))
    shown = gallery(sums=(4,), noises=(1.0,), batches=(2,))
    captions = [panel.caption for panel in shown.panels]
    assert captions[0] == "original"
    assert captions[3:] == [
        "sum over 4 silos (pairwise-masking)", "gradients of 2 nodes each in the clear",
        "noise z = 1, epsilon 4.62 (present or zero)",
    ]  # fmt: skip
    assert shown.panels[0].scores.exact == 1
    assert shown._repr_html_().count("<svg") == 4 * len(captions)
    assert len(repr(shown).splitlines()) == 1 + len(captions)


def test_galleries_are_of_pictures_and_of_few_silos() -> None:
    """A number of silos out of range is refused."""
    with pytest.raises(InputError, match="4 to 20 silos"):
        gallery(sums=(3,))
