"""Writes GGUF version 3 files in memory. No packages needed."""
import struct

F32, F16 = 0, 1  # tensor types
SCALARS = {"u32": (4, "<I"), "i32": (5, "<i"), "f32": (6, "<f"), "bool": (7, "<?")}  # value type number, struct format


def packed_string(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def packed_value(kind, value):
    """kind: one of SCALARS, "string", or either with an "s" for an array."""
    if kind == "string":
        return struct.pack("<I", 8) + packed_string(value)
    if kind == "strings":
        return struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(packed_string, value))
    if kind.endswith("s"):
        number, form = SCALARS[kind[:-1]]
        return struct.pack("<IIQ", 9, number, len(value)) + b"".join(struct.pack(form, v) for v in value)
    number, form = SCALARS[kind]
    return struct.pack("<I", number) + struct.pack(form, value)


def padding(size, alignment=32):
    return b"\0" * (-size % alignment)


def gguf_bytes(metadata, tensors):
    """metadata: (key, kind, value); tensors: (name, shape outermost first, tensor type, raw little-endian bytes)."""
    values = [packed_string(key) + packed_value(kind, value) for key, kind, value in metadata]
    table, data, offset = [], [], 0
    for name, shape, number, raw in tensors:
        table.append(packed_string(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *reversed(shape), number, offset))
        data += [raw, padding(len(raw))]
        offset += len(raw) + len(data[-1])
    head = struct.pack("<4sIQQ", b"GGUF", 3, len(table), len(values)) + b"".join(values) + b"".join(table)
    return b"".join([head, padding(len(head))] + data)
