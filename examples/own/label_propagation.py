"""Federated label propagation (Zhu and Ghahramani 2002): nodes mix their neighbours' beliefs, and see sums alone."""

from dataclasses import dataclass

import numpy as np
import torch

from fgl_secure.auditing.method import ProgramMethod
from fgl_secure.config_fields import choice
from fgl_secure.training.loop import TrainingRounds
from fgl_secure.training.presets import Selection


class Propagation(TrainingRounds):
    def __init__(self, comm, epochs):
        super().__init__(comm, epochs, Selection.VALIDATION, patience=None)
        classes, known = np.eye(self.silo.facts.classes, dtype=np.float32), self.silo.train[:, None]
        self.labels = self.kept["beliefs"] = classes[self.silo.labels] * known

    def train(self, number):
        figures = self.judge(number)
        _, sums = self.comm.neighbours(torch.tensor(self.kept["beliefs"]))
        means = sums.numpy() / np.maximum(self.comm.message_counts, 1)[:, None]
        self.kept["beliefs"] = np.where(self.silo.train[:, None], self.labels, means)
        return figures

    def judge(self, number):
        return self.sum_figures(self.kept["beliefs"].argmax(axis=1))[1]


@dataclass(frozen=True)
class LabelPropagation(ProgramMethod):
    name, title = "label-propagation", "Federated label propagation"
    epochs: int = choice(10, "how often beliefs are mixed", least=1)

    def program(self, comm, *, seed, device):
        return Propagation(comm, self.epochs)

    def width(self, facts):
        return facts.classes
