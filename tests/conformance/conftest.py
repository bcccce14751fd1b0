"""One peer for all conformance tests."""

import npm_peer
import pytest


@pytest.fixture(scope="session")
def peer() -> npm_peer.Peer:
    return npm_peer.installed()
