"""What a user of Keras imports: `import backproof.keras as bpk`."""

from __future__ import annotations

from backproof.adapters.keras.trace import trace

__all__ = ["trace"]
