"""Writes minimizer_reference.h: the paths of SciPy's fmin_l_bfgs_b and fmin_cg, in evaluations and values after each iteration.

    python3 tests/optim/minimizer_reference.py > tests/optim/minimizer_reference.h

The functions: Rosenbrock's in 2 and in 10 dimensions from (-1.2, 1, -1.2, 1, ...), and a logistic regression with a penalty of 0.01 |w|^2 / 2 on
60 examples of 5 numbers, x[n, i] = sin(1.7 n + 0.9 i (n mod 7)), labelled by the sign of sin(n) + 0.3 x[n, 0], from zeros.
"""
import numpy as np
import scipy
from scipy.optimize import fmin_cg, fmin_l_bfgs_b, rosen, rosen_der

X = np.array([[np.sin(1.7 * n + 0.9 * i * (n % 7)) for i in range(5)] for n in range(60)])
Y = np.where(np.sin(np.arange(60)) + 0.3 * X[:, 0] > 0, 1.0, -1.0)


def logistic(w):
    return np.mean(np.logaddexp(0, -Y * (X @ w))) + 0.005 * w @ w


def logistic_slope(w):
    return X.T @ (-Y / (1 + np.exp(Y * (X @ w)))) / 60 + 0.01 * w


def path(method, f, slope, x0):
    seen, calls = [], [0]

    def both(x):
        calls[0] += 1
        return f(x), slope(x)

    def value(x):
        calls[0] += 1
        return f(x)

    note = lambda x: seen.append((calls[0], f(x)))
    if method == "lbfgs":
        fmin_l_bfgs_b(both, x0, m=10, factr=0, pgtol=1e-9, callback=note)
    else:
        fmin_cg(value, x0, slope, gtol=1e-9, callback=note, disp=False)
    return seen[:25]


start = lambda n: np.array([-1.2, 1.0] * (n // 2))
print(f"// Written by minimizer_reference.py, with SciPy {scipy.__version__}.")
print("#pragma once\n\nnamespace perigee::reference {\n")
print("struct PathPoint {\n  int evaluations;\n  double value;\n};\n")
for method in ("lbfgs", "cg"):
    for name, f, slope, x0 in (("Rosen2", rosen, rosen_der, start(2)), ("Rosen10", rosen, rosen_der, start(10)),
                               ("Logistic", logistic, logistic_slope, np.zeros(5))):
        print(f"inline constexpr PathPoint k{'Lbfgs' if method == 'lbfgs' else 'Cg'}{name}[] = {{")
        for calls, value in path(method, f, slope, x0):
            print(f"    {{{calls}, {value!r}}},".replace("np.float64(", "").replace(")}", "}"))
        print("};")
print("\n}  // namespace perigee::reference")
