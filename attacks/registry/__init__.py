"""All attacks by name: those of this package, and those of packages that are installed beside it.

An attack from outside is an entry point of group `fgl_secure.attacks` that names an `Attack` or a class of one that
needs no argument. Its knowledge, its truth, its scenario and its control are its own, see `Card`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.metadata import EntryPoint
from types import MappingProxyType
from typing import Any

from fgl_secure import plugins
from fgl_secure.attacks.base import Attack, Card
from fgl_secure.attacks.gradients import fields, matching, single
from fgl_secure.attacks.gradients import sums as sums_of_updates
from fgl_secure.attacks.message_passing import codes, fingerprint, messages, relay_patterns, sums
from fgl_secure.attacks.proxies import counts, fractions
from fgl_secure.attacks.rooted_trees import features
from fgl_secure.attacks.rooted_trees import relay_patterns as hop_patterns
from fgl_secure.attacks.structure import hop_sums, hops, nsf_edges, nsf_identity, nsf_predictions, structure_gradients
from fgl_secure.attacks.virtual_nodes import summands
from fgl_secure.errors import InputError, UnknownNameError

GROUP = "fgl_secure.attacks"
"""Of entry points, each of which names an attack."""

IN_TREE: tuple[Attack[Any, Any], ...] = tuple(
    attack
    for family in (
        *(item.ATTACKS for item in (messages, codes, sums, fingerprint, relay_patterns)),
        *(item.ATTACKS for item in (hops, hop_sums, nsf_predictions, nsf_identity, nsf_edges, structure_gradients)),
        counts.ATTACKS, fractions.ATTACKS, counts.ADDITIONS,
        *(item.ATTACKS for item in (features, hop_patterns, summands, single, fields, matching, sums_of_updates)),
    )
    for attack in family
)  # fmt: skip

PAGES: Mapping[str, str] = MappingProxyType({
    "message_passing": "docs/message_passing.md",
    "structure": "docs/fedstruct.md",
    "proxies": "docs/fedspray.md",
    "rooted_trees": "docs/fed2gnn.md",
    "virtual_nodes": "docs/fedvn.md",
    "gradients": "docs/results/gradients.md",
    "outputs": "docs/finished_models.md",
})  # fmt: skip
"""The page on each family of attacks."""


def page_on(attack: Attack[Any, Any]) -> str:
    """The page on an attack; "" for one from outside whose card names none."""
    if attack.card.page:
        return attack.card.page
    package, _, inside = type(attack).__module__.partition(".attacks.")
    return PAGES.get(inside.partition(".")[0], "") if package == "fgl_secure" else ""


def attacks() -> Mapping[str, Attack[Any, Any]]:
    """All attacks on messages by name, those of this package first.

    Raises:
        InputError: an entry point names something else than an attack, or two attacks have one name.
    """
    result: dict[str, Attack[Any, Any]] = {}
    for item in (*IN_TREE, *(_load_attack(point) for point in plugins.installed_plugins(GROUP))):
        name = item.card.name
        if name in result:
            kinds = " and ".join(f"{type(one).__module__}.{type(one).__qualname__}" for one in (result[name], item))
            raise InputError(f"attack must have a name of its own; found {name} for {kinds}")
        result[name] = item
    return MappingProxyType(result)


def model_attacks() -> tuple[Attack[Any, Any], ...]:
    """Attacks on finished models, for which an audit trains further models; loaded when they are asked for."""
    from fgl_secure.attacks.outputs.finished import ATTACKS  # noqa: PLC0415  # see above

    return ATTACKS


def attack(name: str) -> Attack[Any, Any]:
    """The attack of a name, on messages or on finished models.

    Raises:
        UnknownNameError: there is none.
        InputError: see `attacks`.
    """
    known = {**attacks(), **{item.card.name: item for item in model_attacks()}}
    if name not in known:
        raise UnknownNameError("attack", name, tuple(known))
    return known[name]


def _load_attack(point: EntryPoint) -> Attack[Any, Any]:
    """The attack that an entry point names."""
    target = plugins.load_plugin(point)
    try:
        instance = target() if isinstance(target, type) else target
    except Exception as error:
        raise InputError(
            f"entry point {point.name} of {GROUP} must name an attack that is made without arguments; found {error!r}"
        ) from error
    if not isinstance(instance, Attack):
        raise InputError(f"entry point {point.name} of {GROUP} must name an attack; found {point.value}")
    if not isinstance(instance.card, Card):
        raise InputError(f"card of {point.value} must be a Card; found {instance.card!r}")
    return instance


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
    references = {name: PAPERS[name] for name in _NAMES.findall(source)}
    return references | {address.removeprefix("https://"): address for address in _ADDRESS.findall(source)}
