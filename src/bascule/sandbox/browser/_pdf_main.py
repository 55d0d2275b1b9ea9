"""Renders a PDF: `python -P _pdf_main.py FILE MAX_PAGES WIDTH`, which writes JSON to stdout.

It runs as a separate process because PDF libraries are large native code that reads untrusted
files. A file that crashes the library, or keeps it busy, affects only this process. `MEMORY` limits
its memory.
"""

from __future__ import annotations

import base64
import json
import resource
import struct
import sys
import zlib
from typing import Any

MEMORY = 1 << 30
MAX_TEXT = 20_000
"""Maximum characters of text for each page."""


def main(file: str, most: int, width: int) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    try:
        import pypdfium2
    except ImportError:
        result: dict[str, object] = {"missing": "pypdfium2"}
    else:
        try:
            result = read(pypdfium2, file, most, width)
        except pypdfium2.PdfiumError as error:
            result = {"error": str(error)}
    sys.stdout.write(json.dumps(result))


def read(pdfium: Any, file: str, most: int, width: int) -> dict[str, object]:
    document = pdfium.PdfDocument(file)
    pages = [draw(document[number], width) for number in range(min(len(document), most))]
    return {"count": len(document), "pages": pages}


def draw(page: Any, width: int) -> dict[str, object]:
    across, down = page.get_size()
    scale = min(width / max(across, 1), 2 * width / max(down, 1))
    bitmap = page.render(scale=scale, rev_byteorder=True)
    text = page.get_textpage().get_text_bounded()[:MAX_TEXT]
    return {
        "text": text.replace("\r\n", "\n"),
        "width": bitmap.width,
        "height": bitmap.height,
        "png": base64.b64encode(png(bitmap)).decode(),
    }


def png(bitmap: Any) -> bytes:
    width, height, stride = bitmap.width, bitmap.height, bitmap.stride
    data, wide = bytes(bitmap.buffer), 3 * width
    rows = b"".join(b"\0" + data[row * stride : row * stride + wide] for row in range(height))
    head = struct.pack("!IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        piece(kind, body)
        for kind, body in ((b"IHDR", head), (b"IDAT", zlib.compress(rows, 6)), (b"IEND", b""))
    )


def piece(kind: bytes, body: bytes) -> bytes:
    return struct.pack("!I", len(body)) + kind + body + struct.pack("!I", zlib.crc32(kind + body))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
