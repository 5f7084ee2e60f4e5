"""Where the papers that attacks name as their source can be read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

PAPERS: Mapping[str, str] = MappingProxyType({
    "HiFGL": "https://arxiv.org/abs/2406.10616",
    "FedStruct": "https://arxiv.org/abs/2402.19163",
    "FedSpray": "https://arxiv.org/abs/2408.09393",
    "Fed2GNN": "https://openreview.net/forum?id=OMwyBv1UBh",
    "FedVN": "https://ojs.aaai.org/index.php/AAAI/article/view/33830",
    "DLG": "https://arxiv.org/abs/1906.08935",
    "iDLG": "https://arxiv.org/abs/2001.02610",
    "LLG": "https://arxiv.org/abs/2105.09369",
    "Geiping": "https://arxiv.org/abs/2003.14053",
    "GRAIN": "https://openreview.net/forum?id=7bAjVh3CG3",
    "DAGER": "https://arxiv.org/abs/2405.15586",
    "GLG": "https://arxiv.org/abs/2411.19440",
    "FedGIG": "https://arxiv.org/abs/2412.18513",
    "EC-LDA": "https://arxiv.org/abs/2505.15140",
    "Ngo": "https://arxiv.org/abs/2403.17775",
    "Lam": "https://arxiv.org/abs/2106.06089",
    "So": "https://arxiv.org/abs/2106.03328",
    "Duddu": "https://arxiv.org/abs/2010.00906",
    "Shamir": "https://doi.org/10.1145/359168.359176",
    "Narayanan and Shmatikov (2009)": "https://arxiv.org/abs/0903.3276",
    "Narayanan and Shmatikov (2008)": "https://arxiv.org/abs/cs/0610105",
})  # fmt: skip
"""By the name that a source calls it by."""

_ADDRESS = re.compile(r"https://[^\s;,)]+")
_NAMES = re.compile("|".join(rf"(?<![\w-]){re.escape(name)}(?!\w)" for name in sorted(PAPERS, key=len, reverse=True)))


def papers(source: str) -> dict[str, str]:
    """The papers that a source names, in its order: what it calls each, and where it can be read.

    An attack from outside writes the address itself into its source.
    """
    named = {name: PAPERS[name] for name in _NAMES.findall(source)}
    return named | {address.removeprefix("https://"): address for address in _ADDRESS.findall(source)}
