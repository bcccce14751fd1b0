"""What a user of the Trainer of Hugging Face transformers imports: `from backproof.huggingface import RecorderCallback`."""

from __future__ import annotations

from backproof.adapters.torch.huggingface import RecorderCallback, WatchCallback

__all__ = ["RecorderCallback", "WatchCallback"]
