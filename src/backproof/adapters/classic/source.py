"""Where a stream comes from: its bytes, and their digest, which every receipt of the stream names.

It loads nothing but the standard library, so that a command can begin to digest while it loads the rest.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from collections.abc import Iterator
from threading import Event, Thread
from typing import BinaryIO, Protocol

FRAMEWORKS = ("pytorch", "jax", "tensorflow")
MOST_IN_MEMORY = 32 * 1024 * 1024  # of what is set aside
CHUNK = 4 * 1024 * 1024  # bytes digested at once
Buffer = bytes | memoryview


class Readable(Protocol):
    """What gives bytes."""

    def read(self, size: int, /) -> bytes:
        """The next bytes, at most so many."""


class Aside:
    """Bytes set aside in the blocks in which they came: in memory while they are few, then in a temporary file."""

    def __init__(self) -> None:
        self._file = tempfile.SpooledTemporaryFile(max_size=MOST_IN_MEMORY)  # noqa: SIM115 - closed by __exit__
        self._sizes: list[int] = []

    @property
    def size(self) -> int:
        """How many bytes there are."""
        return sum(self._sizes)

    def write(self, block: Buffer) -> None:
        """Set one block aside."""
        self._file.write(block)
        self._sizes.append(len(block))

    def rewind(self) -> None:
        """Begin again at the first block."""
        self._file.seek(0)

    def read(self, size: int) -> bytes:
        """The next bytes."""
        return self._file.read(size)

    def blocks(self) -> Iterator[bytes]:
        """The blocks, one in memory at a time."""
        self.rewind()
        for size in self._sizes:
            yield self._file.read(size)

    def __enter__(self) -> Aside:  # noqa: PYI034 - of this module alone
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


class Source:
    """A stream and its digest, taken beside the judging where a file can be read twice.

    What cannot be is read to its end first, and set aside.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._digest = hashlib.sha256()
        self._stopped = Event()
        self._beside: Thread | None = None
        self._failed: OSError | None = None
        self._aside: Aside | None = None
        self.readable: Readable = stream
        file = _file_of(stream)
        if file is not None:
            self._beside = Thread(target=self._follow, args=file)
            self._beside.start()
            return
        self.readable = self._aside = Aside()
        while chunk := stream.read(CHUNK):
            self._digest.update(chunk)
            self._aside.write(chunk)
        self._aside.rewind()

    def _follow(self, descriptor: int, place: int) -> None:
        held = memoryview(bytearray(CHUNK))
        try:
            while not self._stopped.is_set() and (size := os.preadv(descriptor, [held], place)):
                self._digest.update(held[:size])
                place += size
        except OSError as error:
            self._failed = error

    @property
    def is_known(self) -> bool:
        """Whether the digest need not be waited for."""
        return self._beside is None or not self._beside.is_alive()

    def digest(self) -> str:
        """The digest, once all is read."""
        if self._beside is not None:
            self._beside.join()
        if self._failed is not None:
            raise self._failed
        return f"sha256:{self._digest.hexdigest()}"

    def __enter__(self) -> Source:  # noqa: PYI034 - of this module alone
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        if self._beside is not None:
            self._beside.join()
        if self._aside is not None:
            self._aside.__exit__()


def _file_of(stream: BinaryIO) -> tuple[int, int] | None:
    """The descriptor of a regular file, and where reading it begins; None for what is none."""
    try:
        descriptor, begin = stream.fileno(), stream.tell()
    except (OSError, AttributeError):  # a pipe has no place, and what lies in memory has no descriptor
        return None
    return (descriptor, begin) if hasattr(os, "preadv") and stat.S_ISREG(os.fstat(descriptor).st_mode) else None
