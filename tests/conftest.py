"""Set before any array library is loaded: one thread each, since pytest runs in two processes on two cores."""

import os

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

from hypothesis import settings  # noqa: E402 # after the environment

settings.register_profile("fixed", derandomize=True, database=None, deadline=None)
settings.load_profile("fixed")
