"""What a user of Lightning imports: `from backproof.lightning import RecorderCallback`."""

from __future__ import annotations

from backproof.adapters.torch.lightning import RecorderCallback, WatchCallback

__all__ = ["RecorderCallback", "WatchCallback"]
