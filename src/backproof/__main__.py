"""`python -m backproof` is `bp`."""

import sys

from backproof.cli import main

sys.exit(main())
