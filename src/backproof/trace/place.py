"""A folder or a file to read, on this computer or behind a URL (memory://, s3://, gs:// …, whatever fsspec opens).

What is read is not trusted: nothing outside of the folder is followed to, and what is no plain file is not opened.
"""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

from backproof.errors import InputError


class Place:
    """A folder or file, by its path or URL."""

    def __init__(self, url: str, *, root: str | None = None, files: Any = None) -> None:
        self.url = url
        self.root = root or url
        self.files = files
        """The file system behind a URL; None for this computer's."""
        if "://" in url and files is None:
            self.files, self.url = _file_system(url)
            self.root = self.url

    def __str__(self) -> str:
        return self.url

    @property
    def local(self) -> Path | None:
        """The path, if it is on this computer."""
        return Path(self.url) if self.files is None else None

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.url.rstrip("/").rsplit("/", 1)[-1]

    def child(self, *names: str) -> Place:
        """A place below; one that leads out of the folder is refused."""
        if any("/" in name or "\\" in name or name in ("", ".", "..") for name in names):
            raise InputError(f"{self}: {'/'.join(names)!r} is not a name in it")
        found = Place("/".join((self.url.rstrip("/") or "/", *names)), root=self.root, files=self.files)
        if found.local is not None and leads_out(found.local, Path(self.root)):
            raise InputError(f"{found}: leads out of {self.root}; what is read of it is inside of it")
        return found

    def names(self) -> list[str]:
        """What is in a folder, in order."""
        try:
            if self.local is not None:
                return sorted(entry.name for entry in self.local.iterdir())
            return sorted(str(entry).rstrip("/").rsplit("/", 1)[-1] for entry in self.files.ls(self.url, detail=False))
        except OSError as error:
            raise InputError(f"{self}: cannot be read: {(error.strerror or str(error)).lower()}") from None

    def exists(self) -> bool:
        """Whether anything is there."""
        return self.local.exists() if self.local is not None else bool(self.files.exists(self.url))

    def size(self) -> int:
        """The size of a plain file, in bytes."""
        try:
            if self.local is None:
                return int(self.files.size(self.url))
            found = self.local.stat()
        except OSError as error:
            raise InputError(f"{self}: {(error.strerror or str(error)).lower()}") from None
        if not stat.S_ISREG(found.st_mode):
            raise InputError(f"{self}: is not a plain file")
        return found.st_size

    def read(self, begin: int = 0, end: int | None = None, *, most: int | None = None) -> bytes:
        """A part of a file; of more than `most` bytes, none."""
        size = self.size()
        end = size if end is None else min(end, size)
        if most is not None and end - begin > most:
            raise InputError(f"{self}: has {size} bytes; more than {most} are not read")
        try:
            if self.local is None:
                return bytes(self.files.cat_file(self.url, start=begin, end=end)) if end > begin else b""
            with self.local.open("rb") as file:
                file.seek(begin)
                return file.read(end - begin)
        except OSError as error:
            raise InputError(f"{self}: {(error.strerror or str(error)).lower()}") from None


def leads_out(path: Path, root: Path) -> bool:
    """Whether what a path stands for, through links, lies elsewhere than in a folder."""
    try:
        return not path.resolve().is_relative_to(root.resolve())
    except (OSError, RuntimeError):  # links in a circle
        return True


def _file_system(url: str) -> tuple[Any, str]:
    try:
        from fsspec.core import url_to_fs  # type: ignore[import-untyped] # it has no types
    except ImportError:
        raise InputError(f"{url}: URLs are opened by fsspec: pip install fsspec") from None
    try:
        files, path = url_to_fs(url)
    except (ImportError, ValueError, OSError) as error:
        raise InputError(f"{url}: cannot be opened: {error}") from None
    protocols = files.protocol if isinstance(files.protocol, tuple) else (files.protocol,)
    return (None, path) if "file" in protocols else (files, path)
