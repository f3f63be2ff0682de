#!/usr/bin/env python3
"""Writes tests/lua/numpy_cases.npz: 2200 cases of tensor ops on random shapes, computed by NumPy. numpy_cases_test.lua runs them.

A case is one line of Lua, `return <expression>` over x (a list of tensors) and pg, and the array that it must give. Numbers are drawn here and
stored in one flat array for operands and one for results; a line of text for each case says where its arrays lie. Usage: make_numpy_cases.py OUTPUT
"""
import sys

import numpy as np

COUNT, MORE_COUNT = 2000, 200
rng = np.random.default_rng(20240607)

NAMES = {"float32": "f32", "float64": "f64", "int64": "i64", "int32": "i32", "uint8": "u8", "bool": "bool"}


def shape(least=0, most=4, size=5):
    return tuple(int(n) for n in rng.integers(1, size + 1, rng.integers(least, most + 1)))


def real(dims, low=-2.0, high=2.0, dtype=None):
    dtype = dtype or rng.choice(["float32", "float64"])
    return np.round(rng.uniform(low, high, dims), 2).astype(dtype)


def whole(dims, low=-9, high=9, dtype=None):
    return rng.integers(low, high + 1, dims).astype(dtype or rng.choice(["int64", "int32"]))


def numbers(dims):
    return real(dims) if rng.random() < 0.7 else whole(dims)


def broadcastable(dims):
    other = [n if rng.random() < 0.6 else 1 for n in dims]
    return tuple(other[int(rng.integers(0, len(dims) + 1)):]) if dims else ()


def axes_of(x):
    """Some axes of x for NumPy, and the same for Lua."""
    if x.ndim == 0 or rng.random() < 0.2:
        return None, "nil"
    chosen = sorted(rng.choice(x.ndim, rng.integers(1, x.ndim + 1), replace=False).tolist())
    written = [axis + 1 if rng.random() < 0.7 else axis - x.ndim for axis in chosen]
    return tuple(chosen), "{" + ", ".join(map(str, written)) + "}"


def axis_of(x):
    axis = int(rng.integers(0, x.ndim))
    return axis, axis + 1 if rng.random() < 0.7 else axis - x.ndim


UNARY = {"abs": np.abs, "neg": np.negative, "sign": np.sign, "square": np.square, "exp": np.exp, "expm1": np.expm1, "sin": np.sin, "cos": np.cos,
         "tan": np.tan, "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "floor": np.floor, "ceil": np.ceil, "round": np.round,
         "relu": lambda x: np.maximum(x, 0), "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "softplus": lambda x: np.log1p(np.exp(x))}
POSITIVE = {"log": np.log, "log1p": np.log1p, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x), "reciprocal": lambda x: 1 / x}
UNIT = {"asin": np.arcsin, "acos": np.arccos}
BINARY = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "maximum": np.maximum, "minimum": np.minimum}
COMPARISON = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal}
SYMBOLS = {"add": "+", "sub": "-", "mul": "*"}


def unary():
    name = rng.choice(list(UNARY))
    x = real(shape())
    return f"x[1]:{name}()", [x], UNARY[name](x)


def unary_of_positive():
    name = rng.choice(list(POSITIVE) + list(UNIT))
    x = real(shape(), 0.1, 3.0) if name in POSITIVE else real(shape(), -0.9, 0.9)
    return f"pg.{name}(x[1])", [x], (POSITIVE.get(name) or UNIT[name])(x)


def binary():
    name = rng.choice(list(BINARY))
    dims = shape()
    x, y = numbers(dims), numbers(broadcastable(dims))
    if rng.random() < 0.5:
        x, y = y, x
    code = f"x[1] {SYMBOLS[name]} x[2]" if name in SYMBOLS and rng.random() < 0.5 else f"pg.{name}(x[1], x[2])"
    return code, [x, y], BINARY[name](x, y)


def divide():
    dims = shape()
    x, y = real(dims), real(broadcastable(dims), 0.5, 3.0)
    return ("x[1] / x[2]", [x, y], x / y) if rng.random() < 0.5 else ("x[1] % x[2]", [x, y], np.mod(x, y))


def whole_division():
    x, y = whole(shape(), -20, 20, "int64"), int(rng.integers(1, 7))
    return (f"x[1] / {y}", [x], x / y) if rng.random() < 0.5 else (f"x[1] % {y}", [x], x % y)


def with_number():
    x, y = numbers(shape()), float(np.round(rng.uniform(-3, 3), 1))
    name = rng.choice(list(BINARY))
    if rng.random() < 0.5:
        return f"pg.{name}(x[1], {y})", [x], BINARY[name](x, y)
    return f"pg.{name}({y}, x[1])", [x], BINARY[name](y, x)


def power():
    x = real(shape(), 0.2, 2.0)
    exponent = rng.choice([2, 3, 0.5, -1, 1.5])
    return f"x[1] ^ {exponent}", [x], x ** exponent


def compare():
    name = rng.choice(list(COMPARISON))
    dims = shape()
    x, y = whole(dims, -3, 3), numbers(broadcastable(dims))
    return f"x[1]:{name}(x[2])", [x, y], COMPARISON[name](x, y)


def choose():
    dims = shape()
    c, a, b = rng.random(dims) < 0.5, numbers(broadcastable(dims)), numbers(broadcastable(dims))
    return "pg.where(x[1], x[2], x[3])", [c, a, b], np.where(c, a, b)


def clamp():
    x = real(shape())
    return "x[1]:clamp(-0.5, 1)", [x], np.clip(x, -0.5, 1)


def reduce():
    name = rng.choice(["sum", "mean", "max", "min", "prod"])
    x = numbers(shape(1))
    axes, text = axes_of(x)
    keep = bool(rng.random() < 0.4)
    result = getattr(np, name)(x, axis=axes, keepdims=keep)
    return f"x[1]:{name}({text}, {str(keep).lower()})", [x], result


def spread():
    x = real(shape(1), dtype="float64")
    axes, text = axes_of(x)
    name = rng.choice(["var", "std"])
    return f"x[1]:{name}({text})", [x], getattr(np, name)(x, axis=axes)


def truth():
    x = rng.random(shape(1)) < 0.7
    axes, text = axes_of(x)
    name = rng.choice(["any", "all"])
    return f"x[1]:{name}({text})", [x], getattr(np, name)(x, axis=axes)


def arg_reduce():
    name = rng.choice(["argmax", "argmin"])
    x = whole(shape(1), -4, 4)
    axis, text = axis_of(x)
    return f"x[1]:{name}({text})", [x], getattr(np, name)(x, axis=axis) + 1


def cumulative():
    x = numbers(shape(1))
    axis, text = axis_of(x)
    return f"x[1]:cumsum({text})", [x], np.cumsum(x, axis=axis)


def sorting():
    x = numbers(shape(1))
    axis, text = axis_of(x)
    kind = rng.choice(["sort", "argsort", "descending", "topk"])
    if kind == "sort":
        return f"(x[1]:sort({text}))", [x], np.sort(x, axis=axis)
    if kind == "argsort":
        return f"x[1]:argsort({text})", [x], np.argsort(x, axis=axis, kind="stable") + 1
    if kind == "descending":
        return f"(x[1]:sort({text}, true))", [x], -np.sort(-x, axis=axis)
    count = int(rng.integers(1, x.shape[axis] + 1))
    return f"(x[1]:topk({count}, {text}))", [x], np.take(-np.sort(-x, axis=axis), range(count), axis=axis)


def index():
    x = numbers(shape(1))
    entries, places = [], []
    for size in x.shape[:int(rng.integers(1, x.ndim + 1))]:
        kind = rng.integers(0, 4)
        if kind == 0:
            place = int(rng.integers(0, size))
            entries.append(str(place + 1 if rng.random() < 0.6 else place - size))
            places.append(place)
        elif kind == 1:
            entries.append("{}")
            places.append(slice(None))
        else:
            first, last = (int(n) for n in rng.integers(0, size, 2))
            step = int(rng.integers(1, 3))
            if first <= last:
                entries.append(f"{{{first + 1}, {last + 1 if rng.random() < 0.7 else last - size}, {step}}}")
                places.append(slice(first, last + 1, step))
            else:
                entries.append(f"{{{first + 1}, {last + 1}, {-step}}}")
                places.append(slice(first, None if last == 0 else last - 1, -step))
    new_axis = rng.random() < 0.15
    if new_axis:
        entries.insert(0, "pg.newaxis")
        places.insert(0, None)
    return f"x[1]:get {{{', '.join(entries)}}}", [x], x[tuple(places)]


def mask():
    x = numbers(shape(1, 3))
    chosen = rng.random(x.shape[:int(rng.integers(1, x.ndim + 1))]) < 0.5
    if rng.random() < 0.5:
        return "x[1][x[2]]", [x, chosen], x[chosen]
    changed = x.copy()
    changed[chosen] = 3
    return "(function() local y = x[1]:clone() y[x[2]] = 3 return y end)()", [x, chosen], changed


def assign():
    x = numbers(shape(2, 3))
    row, value = int(rng.integers(0, x.shape[0])), whole(x.shape[1:])
    changed = x.copy()
    changed[row] = value
    return f"(function() local y = x[1]:clone() y[{row + 1}] = x[2] return y end)()", [x, value], changed


def take():
    x = numbers(shape(1))
    axis, text = axis_of(x)
    places = rng.integers(0, x.shape[axis], shape(0, 2, 4))
    return f"x[1]:take(x[2], {text})", [x, places + 1], np.take(x, places, axis=axis)


def nonzero():
    x = whole(shape(1), 0, 1)
    return "x[1]:nonzero()", [x], np.argwhere(x) + 1


def rearrange():
    x = numbers(shape(1))
    kind = rng.choice(["permute", "reshape", "reverse", "expand", "squeeze", "unsqueeze"])
    if kind == "permute":
        order = rng.permutation(x.ndim).tolist()
        return f"x[1]:transpose {{{', '.join(str(a + 1) for a in order)}}} * 1", [x], x.transpose(order)
    if kind == "reshape":
        order = rng.permutation(x.ndim).tolist()
        dims = shape(1, 2, 3)
        rest = x.size // max(1, int(np.prod(dims)))
        dims = dims + (-1,) if int(np.prod(dims)) * rest == x.size else (-1,)
        code = f"x[1]:permute {{{', '.join(str(a + 1) for a in order)}}}:reshape {{{', '.join(map(str, dims))}}}"
        return code, [x], x.transpose(order).reshape(dims)
    if kind == "reverse":
        return "x[1].T", [x], x.T
    if kind == "expand":
        dims = shape(1, 2, 3) + x.shape
        return f"x[1]:expand({', '.join(map(str, dims))})", [x], np.broadcast_to(x, dims)
    if kind == "squeeze":
        return "x[1]:squeeze()", [x], x.squeeze()
    axis = int(rng.integers(0, x.ndim + 1))
    return f"x[1]:unsqueeze({axis + 1})", [x], np.expand_dims(x, axis)


def join():
    dims = list(shape(1, 3))
    axis = int(rng.integers(0, len(dims)))
    if rng.random() < 0.5:
        parts = [numbers(tuple(dims)) for _ in range(3)]
        return f"pg.stack({{x[1], x[2], x[3]}}, {axis + 1})", parts, np.stack(parts, axis)
    parts = []
    for _ in range(3):
        dims[axis] = int(rng.integers(1, 4))
        parts.append(numbers(tuple(dims)))
    return f"pg.concat({{x[1], x[2], x[3]}}, {axis + 1})", parts, np.concatenate(parts, axis)


def part():
    x = numbers(shape(1, 3, 8))
    axis, text = axis_of(x)
    size = int(rng.integers(1, x.shape[axis] + 1))
    parts = [np.take(x, range(i, min(i + size, x.shape[axis])), axis=axis) for i in range(0, x.shape[axis], size)]
    which = int(rng.integers(0, len(parts)))
    return f"x[1]:split({size}, {text})[{which + 1}]", [x], parts[which]


def product():
    m, k, n = (int(v) for v in rng.integers(1, 12, 3))
    batch = shape(0, 2, 3)
    a, b = real(batch + (m, k)), real(broadcastable(batch) + (k, n))
    kind = rng.integers(0, 4)
    if kind == 0:
        a, c = real((m, k)), real((n, k))
        return "x[1]:matmul(x[2]:t())", [a, c], a @ c.T
    if kind == 1:
        v = real((k,))
        return "x[1]:matmul(x[2])", [a, v], a @ v
    if kind == 2:
        v = real((k,))
        return "x[1]:matmul(x[2])", [v, b], v @ b
    return "x[1]:matmul(x[2])", [a, b], a @ b


FORMULAS = ["ij,jk->ik", "ij,kj->ik", "bij,bjk->bik", "i,j->ij", "ij,ij->", "ij,ij->i", "ijk,kl->lij", "bij,bij->b", "ab,cd->acbd", "ij,j->i", "ijk,j->k"]


def einsum():
    formula = rng.choice(FORMULAS)
    sizes = {label: int(rng.integers(1, 6)) for label in "abcdijkl"}
    left, right = formula.split("->")[0].split(",")
    a, b = real([sizes[c] for c in left]), real([sizes[c] for c in right])
    return f'pg.einsum("{formula}", x[1], x[2])', [a, b], np.einsum(formula, a, b)


def softmax():
    x = real(shape(1))
    axis, text = axis_of(x)
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    if rng.random() < 0.5:
        return f"x[1]:softmax({text})", [x], e / e.sum(axis=axis, keepdims=True)
    return f"x[1]:logsumexp({text})", [x], np.log(np.exp(x).sum(axis=axis))


def linear_algebra():
    n, m = (int(v) for v in rng.integers(1, 6, 2))
    batch = shape(0, 1, 3)
    a = real(batch + (n, n), dtype="float64") + 4 * np.eye(n)
    kind = rng.choice(["solve", "inv", "cholesky", "qr", "svd", "eigh"])
    if kind == "solve":
        b = real(batch + (n, m), dtype="float64")
        return "pg.solve(x[1], x[2])", [a, b], np.linalg.solve(a, b)
    if kind == "inv":
        return "x[1]:inv()", [a], np.linalg.inv(a)
    symmetric = a @ np.swapaxes(a, -1, -2)
    if kind == "cholesky":
        return "x[1]:cholesky()", [symmetric], np.linalg.cholesky(symmetric)
    if kind == "eigh":
        return "(x[1]:eigh())", [symmetric], np.linalg.eigvalsh(symmetric)
    wide = real(batch + (n, m), dtype="float64")
    if kind == "qr":  # signs are free, the product is not
        return "(function() local q, r = x[1]:qr() return q:matmul(r) end)()", [wide], wide
    return "(select(2, x[1]:svd()))", [wide], np.linalg.svd(wide, compute_uv=False)


def convolution():
    n, c, o, kh, kw, h, w = (int(v) for v in rng.integers(1, 4, 7))
    h, w = h + kh, w + kw
    stride, pad = int(rng.integers(1, 3)), int(rng.integers(0, 2))
    x, k = real((n, c, h, w), dtype="float32"), real((o, c, kh, kw), dtype="float32")
    padded = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (kh, kw), axis=(2, 3))[:, :, ::stride, ::stride]
    return f"x[1]:conv2d(x[2], {{ stride = {stride}, padding = {pad} }})", [x, k], np.einsum("nchwij,ocij->nohw", windows, k)


def in_place():
    dims = shape(1)
    x, y = real(dims), real(broadcastable(dims))
    name = rng.choice(["add", "sub", "mul", "maximum"])
    return f"x[1]:clone():{name}_(x[2])", [x, y], BINARY[name](x, y)


def convert():
    x = numbers(shape()) * 10
    dtype = rng.choice(["float32", "float64", "int32", "int64", "bool"])
    return f'x[1]:to "{NAMES[dtype]}"', [x], x.astype(dtype)


# As given, and with every dimension named, which NumPy is asked for; the letters x, y, z are what "..." stands for.
GENERAL = [("...i,ij->...j", "xyi,ij->xyj"), ("...ij,...jk", "xij,xjk->xik"), ("ii->i", "ii->i"), ("ii", "ii->"), ("bii->b", "bii->b"),
           ("iij->ji", "iij->ji"), ("iii", "iii->"), ("...ii->...", "xyii->xy"), ("i...->...", "ixy->xy"), ("ji", "ji->ij"), ("ba,cb", "ba,cb->ac"),
           ("ii,ij->j", "ii,ij->j"), ("ij,jk,kl->il", "ij,jk,kl->il"), ("ij,ik,il->jkl", "ij,ik,il->jkl"), ("ab,bc,ca->", "ab,bc,ca->"),
           ("...,...->...", "xy,xy->xy"), ("i...j,j->i...", "ixyj,j->ixy")]


def general_einsum():
    formula, named = GENERAL[rng.integers(0, len(GENERAL))]
    sizes = {label: int(rng.integers(1, 5)) for label in "abcijklxyz"}
    arrays = [real([sizes[c] for c in part]) for part in named.split("->")[0].split(",")]
    operands = ", ".join(f"x[{place + 1}]" for place in range(len(arrays)))
    return f'pg.einsum("{formula}", {operands})', arrays, np.einsum(named, *arrays)


def determinants():
    batch, n = shape(0, 2, 3), int(rng.integers(1, 6))
    a = real(batch + (n, n), dtype="float64")
    kind = rng.choice(["det", "sign", "size", "trace"])
    if kind == "det":
        return "x[1]:det()", [a], np.linalg.det(a)
    if kind == "trace":
        return "x[1]:trace()", [a], np.trace(a, axis1=-2, axis2=-1)
    sign, size = np.linalg.slogdet(a)
    return ("(x[1]:slogdet())", [a], sign) if kind == "sign" else ("(select(2, x[1]:slogdet()))", [a], size)


def halves():
    a, k = numbers(shape(0, 2) + tuple(int(n) for n in rng.integers(1, 6, 2))), int(rng.integers(-2, 3))
    kind = rng.choice(["tril", "triu", "diagonal"])
    if kind == "diagonal":
        return "x[1]:diagonal()", [a], np.diagonal(a, axis1=-2, axis2=-1)
    return f"x[1]:{kind}({k})", [a], getattr(np, kind)(a, k)


def turned():
    x = numbers(shape(1))
    axis, text = axis_of(x)
    return f"x[1]:flip({text})", [x], np.flip(x, axis)


def inner():
    n = int(rng.integers(1, 6))
    a, b = real((n,)), real((n,))
    return "x[1]:dot(x[2])", [a, b], np.dot(a, b)


def extremes():
    x = rng.integers(0, 99, shape(1)).astype(rng.choice(["int32", "int64", "uint8", "float64"]))
    axis, text = axis_of(x)
    name = rng.choice(["max", "min"])
    return f"x[1]:{name}({text})", [x], getattr(np, name)(x, axis=axis)


MORE = [general_einsum, determinants, general_einsum, halves, general_einsum, turned, inner, extremes]

MAKERS = [unary, unary_of_positive, binary, binary, divide, whole_division, with_number, power, compare, choose, clamp, reduce, reduce, spread, truth,
          arg_reduce, cumulative, sorting, index, index, index, mask, assign, take, nonzero, rearrange, rearrange, join, part, product, product, einsum,
          softmax, linear_algebra, convolution, in_place, convert]


def main():
    operands, results, lines = [], [], []
    place = {"in": 0, "out": 0}

    def store(array, flat, key):
        array = np.asarray(array)
        begin = place[key]
        place[key] += array.size
        flat.append(array.astype("float64").ravel())
        return f"{NAMES[str(array.dtype)]}:{begin}:{'x'.join(map(str, array.shape))}"

    for number in range(COUNT + MORE_COUNT):
        code, given, wanted = (MAKERS[number % len(MAKERS)] if number < COUNT else MORE[number % len(MORE)])()
        inputs = ";".join(store(x, operands, "in") for x in given)
        lines.append("\t".join([code, inputs, store(wanted, results, "out")]))
    text = np.frombuffer("\n".join(lines).encode(), dtype="uint8")
    np.savez_compressed(sys.argv[1], cases=text, operands=np.concatenate(operands), results=np.concatenate(results).astype("float64"))


main()
