"""Mutated lines through a scanner that was compiled with sanitizers: `fast_fuzz.py LIBRARY COUNT`. Prints how many fitted."""

import ctypes
import json
import random
import sys

from fast_subjects import LINES

from backproof.receipt import bundle, native
from backproof.receipt.columns import Shapes
from backproof.receipt.limits import limits_of
from backproof.receipt.skeleton import skeleton_of


def main() -> None:
    scan = native.bound(ctypes.CDLL(sys.argv[1]))
    draw, fitted = random.Random(0), 0
    for name, lines in sorted(LINES.items()):
        document = json.loads(lines[0])
        _, shape = Shapes().of(document)
        limits = limits_of(shape)
        skeleton = skeleton_of(lines[0].rstrip(b"\n"), document, shape, limits)
        kind = bundle._Kind(shape, limits, sound=True)
        for _ in range(int(sys.argv[2]) // len(LINES)):
            line = bytearray(draw.choice(lines) * draw.randint(1, 2))
            for _ in range(draw.randint(0, 2)):
                at = draw.randrange(len(line))
                line[at : at + draw.randint(0, 2)] = draw.choice([b"", b"0", b'"', b"e", bytes([draw.randrange(256)])])
            del line[draw.choice([len(line), draw.randrange(len(line))]) :]
            if not line:
                continue
            data = bytearray(line + b"\0")
            block = bundle._Block(kind, data, draw.randint(1, 3))
            final = draw.random() < 0.5
            rows, _ = scan(skeleton.struct, block.struct, data, 0, len(line), 0, final=final)
            fitted += rows
        assert fitted, name
    print(fitted)


if __name__ == "__main__":
    main()
