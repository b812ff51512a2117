"""Learning from scored groups.

In the order of one step: `examples` turns groups into tokens with advantages, `forward` computes their
log-probabilities, `loss` compares the two, `trainer` steps the optimiser.
"""

from vpo.training.contract import TrainingDiverged, TrainStats

__all__ = ["TrainStats", "TrainingDiverged"]
