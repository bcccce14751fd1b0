"""What a user of PyTorch imports: `import backproof.torch as bpt`."""

from __future__ import annotations

from backproof.adapters.torch.claims import claimed
from backproof.adapters.torch.functions import intended
from backproof.adapters.torch.recorder import Recorder
from backproof.adapters.torch.trace import trace
from backproof.adapters.torch.watch import BrokenStepError
from backproof.adapters.torch.watch import Watch as watch  # noqa: N813 # it is used like a function: with watch(...)

__all__ = ["BrokenStepError", "Recorder", "claimed", "intended", "trace", "watch"]
