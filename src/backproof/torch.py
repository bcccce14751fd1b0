"""What a user of PyTorch imports: `import backproof.torch as bpt`."""

from __future__ import annotations

from backproof.adapters.torch.functions import intended
from backproof.adapters.torch.recorder import Recorder
from backproof.adapters.torch.trace import trace

__all__ = ["Recorder", "intended", "trace"]
