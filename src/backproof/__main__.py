"""`python -m backproof` is `bp`."""

from backproof.cli import console

console()
