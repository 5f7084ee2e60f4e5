"""Graph attention with two heads (Velickovic et al. 2018, Eq. 6) as a backbone of one's own: the mean of its heads."""

import torch
from torch import nn

from fgl_secure.backbones import register_backbone
from fgl_secure.training.backbones import GATLayer, MessageLayer

HEADS = 2


class TwoHeads(MessageLayer):
    projects_sums = False

    def __init__(self, d_in, d_out):
        super().__init__()
        self.heads = nn.ModuleList(GATLayer(d_in, d_out) for _ in range(HEADS))

    @property
    def message_weight(self):
        return self.heads[0].weight

    @property
    def message_width(self):
        return sum(head.message_width for head in self.heads)

    def source_scale(self, degrees):
        return torch.ones_like(degrees.heard)

    def kept(self, h):
        return torch.cat([head.kept(h) for head in self.heads], dim=1)

    def message(self, kept, degrees):
        return torch.cat([head.message(own, degrees) for head, own in self._by_head(kept)], dim=1)

    def update(self, kept, sums, degrees):
        parts = zip(self._by_head(kept), sums.chunk(HEADS, dim=1), strict=True)
        return sum(head.update(own, part, degrees) for (head, own), part in parts) / HEADS

    def _by_head(self, kept):
        return zip(self.heads, kept.chunk(HEADS, dim=1), strict=True)


register_backbone("two_heads", TwoHeads)
