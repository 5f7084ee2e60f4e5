"""Gradient inversion: its command, the page and the gallery."""

import argparse
import json
from pathlib import Path

import numpy as np
import pytest

from fgl_reproduction.cli import gradient_inversion as command
from fgl_reproduction.inversion import picture_gallery
from fgl_reproduction.inversion.attacked_round import ATTACKS, invert
from fgl_reproduction.inversion.options import InvertOptions
from fgl_reproduction.inversion.page import picture_svg, render_inversion
from fgl_reproduction.inversion.picture_gallery import gallery
from fgl_secure.attacks.gradients.inversion import Effort
from fgl_secure.attacks.gradients.model import Activation, Convolution
from fgl_secure.cli.main import BAD_INPUT, OK, main
from fgl_secure.errors import FglSecureError, InputError
from fgl_secure.methods.fedavg.audit_runs import small_trees
from fgl_secure.schemes import names


def test_the_defaults_of_the_command_are_those_of_the_options() -> None:
    """The defaults that --help prints."""
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    chosen = vars(parser.parse_args([]))
    assert InvertOptions(**{name: chosen[name] for name in InvertOptions.__dataclass_fields__}) == InvertOptions()


def test_names_on_the_command_line_are_the_known_names() -> None:
    """Choices that the parser lists without loading anything are exactly the names that the packages know."""
    assert set(command.BACKBONES) == set(Convolution)
    assert set(command.ATTACKS) == set(ATTACKS)
    assert set(command.SCHEMES) == set(names("server"))
    assert set(command.ACTIVATIONS) == {each.value for each in Activation}


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
    with pytest.raises(FglSecureError, match=told):
        invert(InvertOptions(**changed))  # type: ignore[arg-type]


def test_an_attack_that_can_read_nothing_says_so() -> None:
    """Rows of single clients are not in a sum, and that is bad input and no empty result."""
    with pytest.raises(InputError, match="analytic recovers nothing"):
        invert(InvertOptions(attack="analytic", scheme="pairwise-masking"))


@pytest.mark.parametrize("scheme", ["plaintext", "pairwise-masking"])
def test_a_run_prints_and_writes_the_same_figures(
    scheme: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """JSON on the terminal is what the file says, and the page holds a picture of each node and refers to nothing."""
    words = ["gradient-inversion", "--attack", "joint", "--steps", "2", "--restarts", "1", "--noise", "0.1", "-q",
             "--scheme", scheme]  # fmt: skip
    assert main([*words, "--json", "--out", str(tmp_path)]) == OK
    printed = json.loads(capsys.readouterr().out)
    assert printed == json.loads((tmp_path / "inversion.json").read_text(encoding="utf-8"))
    assert printed["summed"] is (scheme != "plaintext")
    assert {"edge AUC", "GSM-0", "GSM-1", "GSM-2", "FULL"} <= set(printed["structure"]["means"])
    assert printed["rows"]["this run"]["rows"] == 5
    page = (tmp_path / "inversion.html").read_text(encoding="utf-8")
    assert page.count("<svg") == 3 * 5
    assert not any(word in page for word in ("<script", "src=", "href=", "@import"))
    assert main(["gradient-inversion", "--config", str(tmp_path / "run.toml")]) == OK
    assert "epsilon 92" in capsys.readouterr().out


@pytest.mark.parametrize("words", [("--noise", "nan"), ("--steps", "-1"), ("--batch", "0"), ("--out", __file__)])
def test_bad_options_are_refused_in_one_line(words: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    """Status 2, and nothing is printed."""
    assert main(["gradient-inversion", *words]) == BAD_INPUT
    printed = capsys.readouterr()
    assert (printed.out, len(printed.err.splitlines())) == ("", 1)


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


def test_pictures_are_black_for_ones_and_white_for_zeros() -> None:
    """A full entry is a black square in its place, an empty one is left white, and so is what lies below."""
    drawn = picture_svg(np.array([0.0, 1.0, -3.0, np.nan]), (2, 2), "a < b")
    assert '<path fill="#000000" d="M1 0h1v1h-1z"/>' in drawn
    assert drawn.count("<path") == 1
    assert "a &lt; b" in drawn


def test_a_gallery_shows_the_same_nodes_under_each_protection(monkeypatch: pytest.MonkeyPatch) -> None:
    """Originals first, then the prior, the clear, sums, larger batches and noise with its epsilon."""
    monkeypatch.setattr(picture_gallery, "EFFORT", Effort(1))
    shown = gallery(sums=(4,), noises=(1.0,), batches=(2,))
    captions = [panel.caption for panel in shown.panels]
    assert captions[0] == "original"
    assert captions[3:] == [
        "sum over 4 silos (pairwise-masking)", "gradients of 2 nodes each, unprotected",
        "noise z = 1, epsilon 4.62 (zero-out adjacency)",
    ]  # fmt: skip
    assert shown.panels[0].scores.exact == 1
    assert shown._repr_html_().count("<svg") == 4 * len(captions)
    assert len(repr(shown).splitlines()) == 1 + len(captions)


def test_galleries_are_of_pictures_and_of_few_silos() -> None:
    """A number of silos out of range is refused."""
    with pytest.raises(InputError, match="4 to 20 silos"):
        gallery(sums=(3,))
