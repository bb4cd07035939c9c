"""Tensors in a file that knows whether it is whole.

A file is safetensors, which any library opens, and in its header stands a checksum of all its
bytes. What does not match it is refused, and nothing is read by pickle, which would run code that
it finds. Chapter 9.

What no process holds whole is a folder of such files, one from each process. A tensor that is
sharded has its first rows in the first file, the next in the second, and so on; any other is in
the first. (torch.distributed.checkpoint can write safetensors, too. But it has no place for a
checksum, copies all that it writes, and believes the files that it finds: where one is missing, it
leaves those rows of the weights as they were, and says nothing.)
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from decoder_only.base.files import AnyPath, open_file, write_atomically

# Of a tensor in files: one on the meta device of its shape and number format, its name there, and
# its parts in order: the first row, the number of rows, and the file.
Found = tuple[Tensor, str, list[tuple[int, int, Path]]]

_BLANK = b"0" * 64
_DIGEST = re.compile(rb'"sha256":"([0-9a-f]{64})"')
_LARGEST_HEADER = 10**8  # which is safetensors' limit, too
# The names that safetensors gives to number formats.
_FORMATS = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}
_DTYPES = {name: dtype for dtype, name in _FORMATS.items()}


def write_tensors(
    path: AnyPath, tensors: Mapping[str, Tensor], *, notes: Mapping[str, str]
) -> None:
    """Write tensors as one safetensors file that carries its own SHA-256.

    The checksum covers every byte of the file, with zeros in its own place. Nothing is copied
    that lies in CPU memory already. What must be fetched is fetched one tensor at a time, first
    for the header, then for the checksum, then to be written. (The library's own writer first
    makes a copy of everything.)

    Args:
        path: the file; the old one stays until the new one is whole.
        tensors: by name.
        notes: what else the file's header should say.
    """
    kinds = {name: _kind(tensors[name]) for name in tensors}
    names = sorted(kinds, key=lambda name: (-kinds[name][0].itemsize, name))
    header: dict[str, object] = {
        "__metadata__": {**notes, "sha256": _BLANK.decode()},
    }
    end = 0
    for name in names:
        dtype, shape, n_bytes = kinds[name]
        begin, end = end, end + n_bytes
        header[name] = {
            "dtype": _FORMATS[dtype],
            "shape": shape,
            "data_offsets": [begin, end],
        }
    said = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    said += b" " * (-len(said) % 8)
    said = len(said).to_bytes(8, "little") + said
    digest = hashlib.sha256(said)
    for name in names:
        digest.update(_bytes(tensors[name]))
    said = said.replace(
        b'"sha256":"%s"' % _BLANK, b'"sha256":"%s"' % digest.hexdigest().encode(), 1
    )
    write_atomically(Path(path), chain([said], (_bytes(tensors[n]) for n in names)))


def _kind(tensor: Tensor) -> tuple[torch.dtype, list[int], int]:
    return tensor.dtype, list(tensor.shape), tensor.nbytes


def _bytes(tensor: Tensor) -> memoryview:
    tensor = tensor.detach().cpu().contiguous()
    return memoryview(tensor.reshape(-1).view(torch.uint8).numpy())


class SavedTensors(Mapping[str, Tensor]):
    """Tensors in files, by name. Each is read when it is asked for, and is a copy."""

    def __init__(self, found: Mapping[str, Found]) -> None:
        self._found = found

    def __getitem__(self, name: str) -> Tensor:
        return self.rows(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)

    def shape(self, name: str) -> torch.Size:
        """The shape of a tensor, which is not read for it."""
        return self._found[name][0].shape

    def rows(self, name: str, wanted: slice = slice(None)) -> Tensor:
        """Some rows of a tensor, or all. Nothing else is copied into memory."""
        like, name, parts = self._found[name]
        begin, end, _ = wanted.indices(len(like) if like.ndim else 1)
        copy = torch.empty((end - begin, *like.shape[1:]), dtype=like.dtype)
        for first, n_rows, path in parts:
            low, high = max(begin, first), min(end, first + n_rows)
            if low < high:
                with safe_open(path, framework="pt") as file:
                    # A view of the file: what is not copied from it is not read.
                    part = file.get_tensor(name).view(n_rows, *like.shape[1:])
                    copy[low - begin : high - begin] = part[low - first : high - first]
        return copy if like.ndim else copy[0]

    def under(self, prefix: str) -> "SavedTensors":
        """Those whose names begin with a prefix, by the rest of their names."""
        kept = {n: x for n, x in self._found.items() if n.startswith(prefix)}
        return SavedTensors({n.removeprefix(prefix): x for n, x in kept.items()})


def read_tensors(path: AnyPath) -> tuple[SavedTensors, dict[str, str]]:
    """The tensors and the notes of a file that `write_tensors` wrote, or of a folder of shards.

    All bytes are held against their checksums now; tensors are read when they are asked for.

    Raises:
        ValueError: another program wrote a file, a byte of it has changed, or a shard is missing
            or was not saved with the others.
    """
    path, found, common = Path(path), {}, {}
    files = sorted(path.glob("*.safetensors")) if path.is_dir() else [path]
    if not files:
        raise ValueError(f"{path} is damaged: there is no file in it")
    for number, file in enumerate(files, 1):
        _check_sum(file)
        try:
            notes = _look(file, f"{number} of {len(files)}", found)
            if notes != (common := common or notes):
                raise ValueError(f"it was not saved together with {files[0].name}")
        except Exception as error:  # sealed, but by another hand: anything may be wrong
            raise ValueError(
                f"{file} is damaged, or was not written by decoder-only: {error}"
            ) from error
    return SavedTensors(found), common


def read_notes(path: AnyPath) -> dict[str, str]:
    """The notes of such a file or folder alone, as they stand there.

    Raises:
        FileNotFoundError: it is not there.
        ValueError: it is damaged.
    """
    path = Path(path)
    path = min(path.glob("*.safetensors"), default=path) if path.is_dir() else path
    open_file(path).close()
    try:
        with safe_open(path, framework="pt") as file:
            return file.metadata() or {}
    except SafetensorError as error:
        raise ValueError(f"{path} is damaged: {error}") from error


def _check_sum(path: Path) -> None:
    with open_file(path) as file:
        head = file.read(8)
        head += file.read(min(int.from_bytes(head, "little"), _LARGEST_HEADER))
        said = _DIGEST.search(head, 8)
        if said is None:
            raise ValueError(
                f"{path} is damaged, or was not written by decoder-only: no checksum"
            )
        blank = head[: said.start(1)] + _BLANK + head[said.end(1) :]
        digest = hashlib.file_digest(file, lambda: hashlib.sha256(blank))
    if digest.hexdigest() != said[1].decode():
        raise ValueError(f"{path} is damaged: its bytes do not match its checksum")


def _look(path: Path, number: str, found: dict[str, Found]) -> dict[str, str]:
    """Add what is in a file to what was found in those before it; return its notes."""
    with safe_open(path, framework="pt") as file:
        notes = {k: v for k, v in file.metadata().items() if k != "sha256"}
        if (said := notes.pop("shard", "1 of 1")) != number:
            raise ValueError(f"it is shard {said}, but the file is {number}")
        for name in file.keys():  # noqa: SIM118
            part, first, parts = file.get_slice(name), 0, []
            dtype, shape = _DTYPES[part.get_dtype()], part.get_shape()
            like = torch.empty(shape, dtype=dtype, device="meta")
            n_rows = len(like) if like.ndim else 1
            if name in found:
                before, _, parts = found[name]
                first, like = len(before), torch.cat([before, like])
            found[name] = (like, name, [*parts, (first, n_rows, path)])
        return notes
