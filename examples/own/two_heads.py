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

    def message(self, h, degrees):
        return torch.cat([head.message(h, degrees) for head in self.heads], dim=1)

    def update(self, h, sums, degrees):
        parts = sums.chunk(HEADS, dim=1)
        return sum(head.update(h, part, degrees) for head, part in zip(self.heads, parts, strict=True)) / HEADS


register_backbone("two_heads", TwoHeads)
