"""The proof-linked session: record, compile to a tape, run backward, certify."""

from backproof.session.session import Nat, Parameter, Session

__all__ = ["Nat", "Parameter", "Session"]
