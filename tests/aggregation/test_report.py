"""What the server saw, before and after: measured by one ruler, which finds everything where nothing is hidden."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fgl_secure import SecureAggregator
from fgl_secure.aggregation.report import LabelTest, compare
from fgl_secure.coins import SimulationCoins
from fgl_secure.errors import InputError
from fgl_secure.schemes import names
from tests.error_codes import about

CLIENTS, CLASSES = 8, 5
PROTECTING = sorted(name for name in names("server") if name != "plaintext")
REFERENCE = {"body": torch.zeros(40, 10), "head.bias": torch.zeros(CLASSES)}


def updated() -> tuple[list[dict[str, torch.Tensor]], list[Any]]:
    """One gradient step of each client, whose most frequent label is its number modulo the classes."""
    draw = torch.Generator().manual_seed(0)
    labels = [torch.tensor([i % CLASSES] * 6 + list(range(CLASSES))) for i in range(CLIENTS)]
    steps = [torch.bincount(of, minlength=CLASSES) / len(of) - 1 / CLASSES for of in labels]
    return [{"body": torch.randn(40, 10, generator=draw), "head.bias": 0.1 * step} for step in steps], labels


def measured(scheme: str, dropped: set[int], **more: Any) -> tuple[SecureAggregator, Any]:
    aggregator = SecureAggregator.for_clients(CLIENTS, scheme, bound=8.0, threshold=5, coins=SimulationCoins(2), **more)
    updates, labels = updated()
    aggregator.mean(updates, list(range(1, CLIENTS + 1)), dropped=dropped)
    assert aggregator.last_round is not None
    return aggregator, compare(aggregator.last_round, updates, LabelTest("head.bias", REFERENCE, labels))


def test_in_the_clear_the_server_reads_every_update() -> None:
    """Positive control: without protection every client is recognised, and every label read from its rows."""
    _, found = measured("plaintext", set(), weight_bound=8)
    assert found.arrived.recognised == found.clear.recognised == 1.0
    assert found.arrived.labels == found.clear.labels == 1.0
    assert np.allclose(np.diag(found.arrived.matches), np.diag(found.clear.matches), atol=0.2)
    weights = np.arange(1, CLIENTS + 1)[:, None]
    assert np.allclose(found.arrived.rows / weights, found.clear.rows, atol=1e-6)


@pytest.mark.parametrize("scheme", PROTECTING)
def test_under_a_scheme_what_arrives_is_like_nobodys_update(scheme: str) -> None:
    """What arrives of a client correlates with no update beyond chance, while in the clear it is the update."""
    _, found = measured(scheme, {2})
    assert found.clients == (0, 1, 3, 4, 5, 6, 7)
    assert found.clear.recognised == 1.0
    assert np.diag(found.clear.matches) == pytest.approx(1.0)
    assert float(np.abs(found.arrived.matches).max()) < 5 / np.sqrt(found.entries)
    assert found.arrived.recognised < 1.0
    assert found.chance == 1 / 7


@pytest.mark.parametrize("scheme", ["plaintext", "pairwise-masking"])
def test_the_page_stands_alone_and_has_the_figures(scheme: str, tmp_path: Path) -> None:
    """The page refers to nothing outside itself, runs nothing, and prints the figures that were measured."""
    aggregator, found = measured(scheme, {3})
    updates, labels = updated()
    path = tmp_path / "report.html"
    shown = aggregator.write_report(path, updates, LabelTest("head.bias", REFERENCE, labels))
    page = path.read_text(encoding="utf-8")
    assert shown.arrived.recognised == found.arrived.recognised
    assert not re.search(r"<script|src=|href=|url\(", page)
    for text in (f"{100 * shown.clear.recognised:.1f} %", f"{100 * shown.arrived.labels:.1f} %", "head.bias", scheme):  # type: ignore[operator]
        assert text in page
    assert "Not in it: 3." in page
    assert page.count("<rect") == 2 * 7 * 7


def test_names_in_the_page_are_escaped(tmp_path: Path) -> None:
    """A key that is markup is shown and does nothing."""
    aggregator = SecureAggregator.for_clients(3, "plaintext", coins=SimulationCoins(2))
    updates = [{"<script>alert(1)</script>": torch.randn(3)} for _ in range(3)]
    aggregator.mean(updates)
    aggregator.write_report(tmp_path / "report.html", updates)
    assert "<script" not in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_reports_need_an_entry_to_compare(tmp_path: Path) -> None:
    """A round of tensors without entries has a mean and no report."""
    aggregator, updates = SecureAggregator.for_clients(3, "plaintext"), [{"x": torch.zeros(0)}] * 3
    assert aggregator.mean(updates)["x"].shape == (0,)
    with pytest.raises(InputError, check=about("updates")):
        aggregator.write_report(tmp_path / "report.html", updates)


def test_reports_need_a_round_that_fits(tmp_path: Path) -> None:
    """Without a round, with other updates, or with a bias that is not there, nothing is written."""
    aggregator = SecureAggregator.for_clients(CLIENTS, "plaintext")
    updates, labels = updated()
    with pytest.raises(InputError, check=about("report")):
        aggregator.write_report(tmp_path / "report.html", updates)
    aggregator.mean(updates)
    with pytest.raises(InputError, check=about("updates")):
        aggregator.write_report(tmp_path / "report.html", updates[1:])
    broken = {name: value * float("nan") for name, value in updates[0].items()}
    with pytest.raises(InputError, check=about("updates")):
        aggregator.write_report(tmp_path / "report.html", [broken, *updates[1:]])
    for bias, of in (("no.bias", labels), ("head.bias", labels[1:])):
        with pytest.raises(InputError):
            aggregator.write_report(tmp_path / "report.html", updates, LabelTest(bias, REFERENCE, of))
    assert not (tmp_path / "report.html").exists()


def test_the_page_makes_its_folder_and_names_a_place_that_cannot_be_written_to(tmp_path: Path) -> None:
    """A folder that is missing is made; a file in its place is a clear error."""
    aggregator, _ = measured("plaintext", set(), weight_bound=8)
    updates, _ = updated()
    aggregator.write_report(tmp_path / "new" / "folder" / "page.html", updates)
    assert (tmp_path / "new" / "folder" / "page.html").exists()
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, check=about("path")):
        aggregator.write_report(tmp_path / "file" / "page.html", updates)
