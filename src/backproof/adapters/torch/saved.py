"""What autograd saved for the backward pass: looked at when a value is made, and again when the backward pass needs it.

A fingerprint is a hash of a tensor's bits: of all of a small one, of numbers at even distances of a large one. PyTorch notices what
changes a tensor's version; this notices what does not (`.data`, other libraries, buffers that were given away).
"""

from __future__ import annotations

from typing import Any

import torch

from backproof.adapters.torch.values import Values
from backproof.trace.step import Call
from backproof.verify.region import values_in

MOST_HASHED = 1 << 14
"""Elements; of a larger tensor as many are looked at, evenly spread."""
UNUSED = {"_saved_running_mean", "_saved_running_var"}
"""Saved and, in training, neither used nor meant to stay as they are."""
HASHED = {torch.float64, torch.float32, torch.float16, torch.bfloat16}


class Saved:
    """The fingerprints of one step."""

    def __init__(self, values: Values) -> None:
        self.values = values
        self.found: list[dict[str, Any]] = []
        """Values that had changed when they were needed: {value, by, saved}."""
        self._prints: dict[int, tuple[torch.Tensor, int]] = {}
        self._calls: dict[int, Call] = {}
        self._nodes: dict[int, Any] = {}

    def note(self, number: int, tensor: torch.Tensor) -> None:
        """A value was made."""
        found = fingerprint(tensor)
        if found is not None:
            self._prints[number] = tensor, found

    def begin(self, calls: list[Call], makers: dict[tuple[Any, int], int]) -> None:
        """A backward pass begins."""
        self._calls = {output: call for call in calls for output in call.outputs}
        self._nodes = {number: node for (node, _), number in makers.items()}

    def use(self, number: int) -> None:
        """The backward pass has come to what made a value: what that may have saved is as it was, or is told."""
        call = self._calls.get(number)
        if call is None:
            return
        concerned = [value for value in {*values_in((call.args, call.kwargs)), number} if value in self._prints]
        now = {value: fingerprint(self._prints[value][0]) for value in concerned}
        same = {self._prints[value][0].data_ptr() for value in concerned if now[value] == self._prints[value][1]}
        for value in concerned:
            tensor, before = self._prints[value]
            if now[value] == before:
                continue
            del self._prints[value]
            # In place of a value another may stand that the same call knows, and that is what it saved.
            saved = tensor.data_ptr() not in same and _saves(self._nodes.get(number), tensor)
            unseen = self._unseen(value, before)
            if unseen:
                del self.values.numbers[f"v{value}"]  # it holds what is there now, and that is not what was
            if saved or unseen:
                self.found.append({"value": value, "by": number, "saved": saved})

    def settle(self) -> None:
        """At the end: values that no backward pass needed, and that something unseen has changed since."""
        for value, (_, before) in self._prints.items():
            if self._unseen(value, before):
                del self.values.numbers[f"v{value}"]
                self.found.append({"value": value, "by": None, "saved": False})
        self._prints.clear()
        self._calls, self._nodes = {}, {}

    def _unseen(self, value: int, before: int) -> bool:
        """Whether what is held of a value has changed; what was seen to change was copied first."""
        kept = self.values.numbers.get(f"v{value}")
        return kept is not None and fingerprint(kept) != before


def fingerprint(tensor: torch.Tensor) -> int | None:
    """A hash of a tensor's bits; None where there is none that is cheap."""
    if tensor.dtype not in HASHED or not tensor.is_contiguous() or tensor.device.type != "cpu" or not tensor.numel():
        return None
    flat = tensor.detach().view(-1)
    step = -(-flat.numel() // MOST_HASHED)
    if step > 1:
        flat = flat[:: step | 1]
    if hasattr(torch, "hash_tensor"):
        return int(torch.hash_tensor(flat).view(torch.int64))
    return int(flat.contiguous().view(torch.uint8).view(torch.int16).sum())


def _saves(node: Any, tensor: torch.Tensor) -> bool:
    """Whether a node of the backward pass has saved what lies where this tensor lies."""
    places = {tensor.data_ptr()}
    for name in dir(node):
        if name not in UNUSED and (name.startswith("_saved_") or name == "saved_tensors"):
            try:
                found = getattr(node, name)
            except RuntimeError:  # it is freed already
                continue
            several = found if isinstance(found, (tuple, list)) else (found,)
            if any(isinstance(item, torch.Tensor) and item.data_ptr() in places for item in several):
                return True
    return False
