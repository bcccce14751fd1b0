"""Every format, described once: receipts 0.1.0 to 0.8.0 and 1.0.0, framework-trace sidecars, topology inputs."""

from __future__ import annotations

from functools import cache

from backproof.errors import UsageError
from backproof.receipt.formats import lossless
from backproof.receipt.formats.receipts import receipt_format
from backproof.receipt.formats.sidecars import sidecar_format
from backproof.receipt.formats.topology_input import TOPOLOGY_INPUT
from backproof.receipt.kinds import Record

CLASSIC_VERSIONS = tuple(f"0.{n}.0" for n in range(1, 9))
RECEIPT_VERSIONS = (*CLASSIC_VERSIONS, lossless.VERSION)
SIDECAR_FORMATS = tuple(f"framework-trace.v0.{n}.0" for n in range(1, 9))
TOPOLOGY_INPUT_NAME = "topology-input.v0.4.0"

NAMES = (
    *(f"receipt.v{version}" for version in RECEIPT_VERSIONS),
    *SIDECAR_FORMATS,
    TOPOLOGY_INPUT_NAME,
    lossless.INPUT_NAME,
)


@cache
def named(name: str) -> Record:
    """The format of that name, such as `receipt.v0.3.0`."""
    for own, kind in (
        (TOPOLOGY_INPUT_NAME, TOPOLOGY_INPUT),
        (lossless.INPUT_NAME, lossless.INPUT),
        (f"receipt.v{lossless.VERSION}", lossless.RECEIPT),
    ):
        if name == own:
            return kind
    if name in SIDECAR_FORMATS:
        return sidecar_format(int(name.split(".")[-2]))
    if name in NAMES:
        return receipt_format(int(name.split(".")[-2]))
    raise UsageError(f"no format is called {name!r}; there are {', '.join(NAMES)}")


def of_version(version: str) -> Record:
    """The format of a receipt's schema_version."""
    return named(f"receipt.v{version}")
