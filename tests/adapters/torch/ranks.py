"""Two real processes of a data-parallel run, over gloo: each records into its folder. Run as a script: OUT RANK PORT MISTAKE ..."""

import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F  # noqa: N812 # PyTorch's own name for it
from torch.nn.parallel import DistributedDataParallel

WORLD = 2


def summed(state, bucket):
    """It forgets to divide."""
    work = dist.all_reduce(bucket.buffer(), async_op=True)
    return work.get_future().then(lambda done: done.value()[0])


def missing(state, bucket):
    """Rank 1 takes part, and keeps its own."""
    own = bucket.buffer().clone()
    mean = bucket.buffer().div_(WORLD)
    work = dist.all_reduce(mean, async_op=True)
    return work.get_future().then(lambda done: own if dist.get_rank() == 1 else done.value()[0])


HOOKS = {"summed": summed, "missing": missing}


def manual(net, *, averaged: bool):
    """The program reduces by itself."""
    for parameter in net.parameters():
        dist.all_reduce(parameter.grad)
        if averaged:
            parameter.grad /= WORLD


def train(out: str, mistake: str, rank: int) -> None:
    import backproof.torch as bpt

    torch.manual_seed(rank if mistake == "other seeds" else 0)
    net = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 3))
    by_hand = mistake in ("by hand", "other seeds")
    model = net if by_hand else DistributedDataParallel(net)
    if mistake in HOOKS:
        hook = HOOKS[mistake]
        hook.__name__ = hook.__qualname__ = "allreduce_hook"  # it says that it is the usual one
        model.register_comm_hook(None, hook)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    torch.manual_seed(100 + rank)
    rows = 6 + 2 * rank if mistake == "unequal" else 6
    x, y = torch.randn(rows, 8), torch.randint(0, 3, (rows,))
    with bpt.Recorder(model, optimizer, out=f"{out}/{mistake}/rank{rank}") as recorder:
        for _ in range(2):
            with recorder.step():
                optimizer.zero_grad()
                if mistake == "accumulated":
                    with model.no_sync():
                        (F.cross_entropy(model(x[:3]), y[:3]) / 2).backward()
                    (F.cross_entropy(model(x[3:]), y[3:]) / 2).backward()
                else:
                    F.cross_entropy((model.module if mistake == "unwrapped" else model)(x), y).backward()
                if by_hand:
                    manual(net, averaged=True)
                optimizer.step()
    dist.barrier()  # no one goes on while another still talks


def main(out: str, rank: int, port: str, mistakes: list[str]) -> None:
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=WORLD)
    for mistake in mistakes:
        train(out, mistake, rank)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4:])
