"""A small data set in files, of which a test decides each number."""
import struct


def write_npy(path, values, shape, format_="<f4"):
    header = f"{{'descr': '{format_}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    code = {"<f4": "f", "<i4": "i"}[format_]
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + struct.pack(f"<{len(values)}{code}", *values))


def write_points(folder, count, rng, bad=()):
    """Two clouds of points as points.npy and classes.npy; the rows in `bad` have no number."""
    folder.mkdir(exist_ok=True)
    classes = [rng.randrange(10) for _ in range(count)]
    points = [rng.gauss(0.3 * c, 1) if row not in bad else float("nan") for row, c in enumerate(classes) for _ in range(16)]
    write_npy(folder / "points.npy", points, (count, 16))
    write_npy(folder / "classes.npy", classes, (count,), "<i4")


def points(folder=""):
    return f'{{ type = "npy", x = "{folder}points.npy", y = "{folder}classes.npy", classes = 10 }}'
