"""Every composition in several settings, with PyTorch's own function beside it."""

import cases_joints
import cases_layers
import cases_losses
import cases_pointwise
import cases_space
from agreement import Case

CASES: list[Case] = [
    *cases_pointwise.CASES,
    *cases_layers.CASES,
    *cases_space.CASES,
    *cases_losses.CASES,
    *cases_joints.CASES,
]


ONLY_FLOAT32: list[Case] = cases_pointwise.ONLY_FLOAT32
