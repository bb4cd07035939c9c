"""Tensors in a file that knows whether it is whole.

A file is safetensors, which any library opens, and in its header stands a checksum of all its
bytes. What does not match it is refused, and nothing is read by pickle, which would run code that
it finds. Chapter 9.
"""

import hashlib
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path

import safetensors.torch
import torch
from torch import Tensor

from decoder_only.engine.files import write_atomically

AnyPath = str | os.PathLike[str]

_BLANK = b"0" * 64
_DIGEST = re.compile(rb'"sha256":"([0-9a-f]{64})"')
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


def write_tensors(
    path: AnyPath, tensors: Mapping[str, Tensor], *, notes: Mapping[str, str]
) -> None:
    """Write tensors as one safetensors file that carries its own SHA-256.

    The checksum covers every byte of the file, with zeros in its own place. Nothing is copied
    that lies in CPU memory already: the bytes are read twice, for the checksum and to be written.
    (The library's own writer first makes a copy of everything.)

    Args:
        path: the file; the old one stays until the new one is whole.
        tensors: by name.
        notes: what else the file's header should say.
    """
    names = sorted(tensors, key=lambda name: (-tensors[name].itemsize, name))
    header: dict[str, object] = {
        "__metadata__": {**notes, "sha256": _BLANK.decode()},
    }
    pieces, end = [], 0
    for name in names:
        tensor = tensors[name].detach().cpu().contiguous()
        begin, end = end, end + tensor.nbytes
        header[name] = {
            "dtype": _FORMATS[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [begin, end],
        }
        pieces.append(memoryview(tensor.reshape(-1).view(torch.uint8).numpy()))
    said = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    said += b" " * (-len(said) % 8)
    said = len(said).to_bytes(8, "little") + said
    digest = hashlib.sha256(said)
    for piece in pieces:
        digest.update(piece)
    said = said.replace(
        b'"sha256":"%s"' % _BLANK, b'"sha256":"%s"' % digest.hexdigest().encode(), 1
    )
    write_atomically(Path(path), [said, *pieces])


def read_tensors(path: AnyPath) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors and the notes of a file that `write_tensors` wrote.

    Raises:
        ValueError: another program wrote the file, or a byte of it has changed.
    """
    content = Path(path).read_bytes()
    body = min(8 + int.from_bytes(content[:8], "little"), len(content))
    found = _DIGEST.search(content, 8, body)
    if found is None:
        raise ValueError(
            f"{path} is damaged, or was not written by decoder-only: no checksum"
        )
    digest = hashlib.sha256(memoryview(content)[: found.start(1)])
    digest.update(_BLANK)
    digest.update(memoryview(content)[found.end(1) :])
    if digest.hexdigest() != found[1].decode():
        raise ValueError(f"{path} is damaged: its bytes do not match its checksum")
    try:
        notes = dict(json.loads(content[8:body])["__metadata__"])
        return safetensors.torch.load(content), notes
    except Exception as error:  # sealed, but by another hand: anything may be wrong
        raise ValueError(f"{path} was not written by decoder-only: {error}") from error
