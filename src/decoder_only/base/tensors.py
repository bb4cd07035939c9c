"""Tensors in a file that carries a checksum of itself.

The format is safetensors, which many libraries read. The file's header holds a SHA-256 of all its
bytes, and a file that does not match is refused. Nothing is read by pickle, which would run code
that it finds. Chapter 9.

Where each process holds only a shard of the tensors, a folder takes the place of the file, with one
file from each process. A sharded tensor has its first rows in the first file, the next rows in the
second, and so on. A tensor that is not sharded is in the first file. (torch.distributed.checkpoint
can write safetensors, too, but without a checksum. Where a file is missing, its reader leaves those
rows of the weights as they were, without an error.)
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

# A tensor in files: one on the meta device of the same shape and number format, its name in the
# files, and its parts in order, each as the first row, the number of rows, and the file.
Entry = tuple[Tensor, str, list[tuple[int, int, Path]]]

_BLANK = b"0" * 64
_DIGEST = re.compile(rb'"sha256":"([0-9a-f]{64})"')
_LARGEST_HEADER = 10**8  # bytes; safetensors has the same limit
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

    The checksum is that of the file with zeros in the place of the checksum. A tensor that is in
    CPU memory is not copied. Any other is fetched three times, one tensor at a time: for the
    header, for the checksum, and to be written. (The library's own writer copies everything.)

    Args:
        path: the file; the old one stays until the new one is whole.
        tensors: by name.
        notes: more entries for the header.
    """
    kinds = {name: _kind(tensors[name]) for name in tensors}
    names = sorted(kinds, key=lambda name: (-kinds[name][0].itemsize, name))
    table: dict[str, object] = {"__metadata__": {**notes, "sha256": _BLANK.decode()}}
    end = 0
    for name in names:
        dtype, shape, n_bytes = kinds[name]
        begin, end = end, end + n_bytes
        place = {"shape": shape, "data_offsets": [begin, end]}
        table[name] = {"dtype": _FORMATS[dtype]} | place
    header = json.dumps(table, separators=(",", ":"), ensure_ascii=False).encode()
    header += b" " * (-len(header) % 8)
    header = len(header).to_bytes(8, "little") + header
    digest = hashlib.sha256(header)
    for name in names:
        digest.update(_bytes(tensors[name]))
    seal = b'"sha256":"%s"'
    header = header.replace(seal % _BLANK, seal % digest.hexdigest().encode(), 1)
    write_atomically(Path(path), chain([header], (_bytes(tensors[n]) for n in names)))


def _kind(tensor: Tensor) -> tuple[torch.dtype, list[int], int]:
    return tensor.dtype, list(tensor.shape), tensor.nbytes


def _bytes(tensor: Tensor) -> memoryview:
    tensor = tensor.detach().cpu().contiguous()
    return memoryview(tensor.reshape(-1).view(torch.uint8).numpy())


class SavedTensors(Mapping[str, Tensor]):
    """Tensors in files, by name. Each is read, as a copy, when it is looked up."""

    def __init__(self, entries: Mapping[str, Entry]) -> None:
        self._entries = entries

    def __getitem__(self, name: str) -> Tensor:
        return self.rows(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def shape(self, name: str) -> torch.Size:
        """The shape of a tensor; the tensor is not read."""
        return self._entries[name][0].shape

    def rows(self, name: str, rows: slice = slice(None)) -> Tensor:
        """Read some rows of a tensor, or all of them. Nothing else is copied into memory."""
        meta, name, parts = self._entries[name]
        begin, end, _ = rows.indices(len(meta) if meta.ndim else 1)
        copy = torch.empty((end - begin, *meta.shape[1:]), dtype=meta.dtype)
        for first, n_rows, path in parts:
            low, high = max(begin, first), min(end, first + n_rows)
            if low < high:
                with safe_open(path, framework="pt") as file:
                    # The file is mapped: only the rows that are copied are read.
                    part = file.get_tensor(name).view(n_rows, *meta.shape[1:])
                    copy[low - begin : high - begin] = part[low - first : high - first]
        return copy if meta.ndim else copy[0]

    def under(self, prefix: str) -> "SavedTensors":
        """The tensors whose names begin with a prefix, with the prefix removed."""
        entries = self._entries.items()
        chosen = {n.removeprefix(prefix): x for n, x in entries if n.startswith(prefix)}
        return SavedTensors(chosen)


def read_tensors(path: AnyPath) -> tuple[SavedTensors, dict[str, str]]:
    """The tensors and the notes of a file that `write_tensors` wrote, or of a folder of shards.

    All checksums are compared now. A tensor is read when it is looked up.

    Raises:
        ValueError: a file was written by another program or has changed since, or a shard is
            missing or was not saved with the others.
    """
    path, entries, common = Path(path), {}, None
    files = sorted(path.glob("*.safetensors")) if path.is_dir() else [path]
    if not files:
        raise ValueError(f"{path} is damaged: there is no file in it")
    for number, file in enumerate(files, 1):
        _check_sum(file)
        try:
            notes = _add_entries(file, f"{number} of {len(files)}", entries)
            common = notes if common is None else common
            if notes != common:
                raise ValueError(f"it was not saved together with {files[0].name}")
        except Exception as error:  # sealed, but by another hand: anything may be wrong
            raise ValueError(
                f"{file} is damaged, or was not written by decoder-only: {error}"
            ) from error
    return SavedTensors(entries), common


def read_notes(path: AnyPath) -> dict[str, str]:
    """The notes of such a file or folder alone; no checksum is compared.

    Raises:
        FileNotFoundError: the path does not exist.
        ValueError: the header is damaged.
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
        written = _DIGEST.search(head, 8)
        if written is None:
            raise ValueError(
                f"{path} is damaged, or was not written by decoder-only: no checksum"
            )
        blank = head[: written.start(1)] + _BLANK + head[written.end(1) :]
        digest = hashlib.file_digest(file, lambda: hashlib.sha256(blank))
    if digest.hexdigest() != written[1].decode():
        raise ValueError(f"{path} is damaged: its bytes do not match its checksum")


def _add_entries(path: Path, number: str, entries: dict[str, Entry]) -> dict[str, str]:
    """Add the tensors of a file to those of the files before it; return its notes."""
    with safe_open(path, framework="pt") as file:
        notes = {k: v for k, v in file.metadata().items() if k != "sha256"}
        if (shard := notes.pop("shard", "1 of 1")) != number:
            raise ValueError(f"it is shard {shard}, but the file is {number}")
        for name in file.keys():  # noqa: SIM118
            part, first, parts = file.get_slice(name), 0, []
            dtype, shape = _DTYPES[part.get_dtype()], part.get_shape()
            meta = torch.empty(shape, dtype=dtype, device="meta")
            n_rows = len(meta) if meta.ndim else 1
            if name in entries:
                before, _, parts = entries[name]
                first, meta = len(before), torch.cat([before, meta])
            entries[name] = (meta, name, [*parts, (first, n_rows, path)])
        return notes
