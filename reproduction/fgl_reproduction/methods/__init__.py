"""Methods that the papers compare with, as plugins of `fgl_secure`: configurations that can be trained and audited."""

from __future__ import annotations

from fgl_reproduction.methods.ditto.configuration import Ditto
from fgl_reproduction.methods.fedgcn.configuration import FedGCN
from fgl_reproduction.methods.fedpub.configuration import FedPub
from fgl_reproduction.methods.fedsage.configuration import FedSage
from fgl_reproduction.methods.fedstar.configuration import FedStar
from fgl_reproduction.methods.gap.configuration import GAP, ProGAP
from fgl_reproduction.methods.gcfl.configuration import GCFL

__all__ = ["GAP", "GCFL", "Ditto", "FedGCN", "FedPub", "FedSage", "FedStar", "ProGAP"]
