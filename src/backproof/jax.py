"""What a user of JAX imports: `import backproof.jax as bpj`."""

from __future__ import annotations

from backproof.adapters.jax.taps import tap
from backproof.adapters.jax.trace import Traced, trace

__all__ = ["Traced", "tap", "trace"]
