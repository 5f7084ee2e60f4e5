"""Graph attention with two heads (Velickovic et al. 2018, Eq. 6) as a backbone of one's own: the mean of its heads."""

import torch

from fgl_secure.backbones import register_backbone
from fgl_secure.training.backbones import GATLayer, MessageLayer


class TwoHeads(MessageLayer):
    projects_sums = False

    def __init__(self, d_in, d_out):
        super().__init__()
        self.heads = torch.nn.ModuleList(GATLayer(d_in, d_out) for _ in range(2))

    @property
    def message_weight(self):
        return self.heads[0].weight

    @property
    def message_width(self):
        return 2 * self.heads[0].message_width

    def source_scale(self, degrees):
        return torch.ones_like(degrees.partners)

    def local_state(self, h):
        return torch.hstack([head.local_state(h) for head in self.heads])

    def message(self, kept, degrees):
        heads = zip(self.heads, kept.chunk(2, 1), strict=True)
        return torch.hstack([head.message(h, degrees) for head, h in heads])

    def update(self, kept, sums, degrees):
        parts = zip(self.heads, kept.chunk(2, 1), sums.chunk(2, 1), strict=True)
        return sum(head.update(h, part, degrees) for head, h, part in parts) / 2


register_backbone("two_heads", TwoHeads)
