"""The proof-linked session: record, compile to a tape, run backward, certify."""

from backproof.session.leaves import Nat, Parameter
from backproof.session.session import Session

__all__ = ["Nat", "Parameter", "Session"]
