"""What a finished model reveals through its answers: training nodes and edges.

    from fgl_secure.attacks import audit_model

    print(audit_model(lambda x, edges: model(x, edges).softmax(1), data, data.train_mask))

`audit_model` runs all attacks on one model, and `model_leakage` on several that it trains itself. `train_shadows`
trains the shadow models that they stand on. The modules `membership`, `neighbourhoods` and `links` have the single
scores. `audit_properties` asks what a client's update tells of its graph.
"""

from __future__ import annotations

from fgl_secure.attacks.outputs.links import answer_distances, draw_pairs, influences, learn_links, score_pairs
from fgl_secure.attacks.outputs.membership import lira_offline, lira_online, power_of, rmia
from fgl_secure.attacks.outputs.model_audit import ModelAudit, audit_model
from fgl_secure.attacks.outputs.properties import (
    PropertyAudit,
    answer_spread,
    audit_properties,
    draw_clients,
    flatten_model,
    label_shares,
)
from fgl_secure.attacks.outputs.several_models import ModelLeakage, model_leakage
from fgl_secure.attacks.outputs.shadows import Shadows, ShadowTraining, train_shadows

__all__ = [
    "ModelAudit",
    "ModelLeakage",
    "PropertyAudit",
    "ShadowTraining",
    "Shadows",
    "answer_distances",
    "answer_spread",
    "audit_model",
    "audit_properties",
    "draw_clients",
    "draw_pairs",
    "flatten_model",
    "influences",
    "label_shares",
    "learn_links",
    "lira_offline",
    "lira_online",
    "model_leakage",
    "power_of",
    "rmia",
    "score_pairs",
    "train_shadows",
]
