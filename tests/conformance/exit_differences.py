"""Where an exit code differs from the peer's on its own fixtures; docs/compatibility.md says the same for people."""

# (fixture, command): (the peer's, ours, why)
DIFFERENCES: dict[tuple[str, str], tuple[int, int, str]] = {
    ("bad/pytorch-helper.bad-loss-stale", "import pytorch"): (0, 1, "the loss is compared, too"),
    ("sgd-coupled-l2.golden", "verify general"): (1, 0, "the replay knows the optimizer"),
    ("sgd-momentum-coupled-l2.golden", "verify general"): (1, 0, "the replay knows the optimizer and its state"),
}
