"""Learning from scored groups: what a trainer is (contract), and the one that evo uses (trainer).

In the order of one step: `examples` turns groups into tokens with advantages, `forward` computes their
log-probabilities, `loss` compares the two, `trainer` steps the optimiser.
"""

from vpo.training.contract import FrozenTrainer, Trainer, TrainingDiverged, TrainStats

__all__ = ["FrozenTrainer", "TrainStats", "Trainer", "TrainingDiverged"]
