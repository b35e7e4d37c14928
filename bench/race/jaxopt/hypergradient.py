"""The peer's side of the race: one cold hypergradient of the per-feature logistic problem, by jaxopt.

    L_in  = mean log(1 + exp(-y x.phi)) + 1/2 sum_j exp(theta_j) phi_j^2     on the training part
    L_out = mean log(1 + exp(-y x.phi))                                       on the validation part
    phi*  = argmin L_in by jaxopt.LBFGS from phi = 0, stopped at ||d L_in|| <= tolerance

The gradient of L_out(phi*(theta)) comes from jaxopt's implicit differentiation through the solver. The
whole of it, inner solve included, is one jitted function, compiled and warmed up before the clock runs.

    hypergradient.py write  FILE [--ijcnn1 FOLDER]   the data both sides read
    hypergradient.py time   FILE [--repeats 11] [--tolerance 1e-5]

The data file is plain and little-endian: int64 rows, validation_rows, columns; then float64 training
features (row-major), training labels (-1/1), validation features, validation labels, theta.
"""

import argparse
import bz2
import importlib.metadata
import json
import pathlib
import statistics
import sys
import time

import numpy as np


def read_libsvm(path, rows, columns):
    features, labels = np.zeros((rows, columns)), np.zeros(rows)
    count = 0
    with bz2.open(path, "rt") as lines:
        for count, line in enumerate(lines, start=1):
            if count > rows:
                count = rows
                break
            label, *entries = line.split()
            labels[count - 1] = float(label)
            for entry in entries:
                index, value = entry.split(":")
                features[count - 1, int(index) - 1] = float(value)
    if count != rows:
        sys.exit(f"{path}: {count} rows, {rows} expected")
    return features, labels


def generate(rows, validation_rows, columns, seed=20250611):
    """A stand-in of the same shape: a few strong features, the others useless."""
    generator = np.random.default_rng(seed)
    weights = np.zeros(columns)
    weights[: columns // 4] = [1 if j % 2 == 0 else -1 for j in range(columns // 4)]

    def part(count):
        features = generator.standard_normal((count, columns))
        chance = 1 / (1 + np.exp(-features @ weights))
        return features, np.where(generator.random(count) < chance, 1.0, -1.0)

    return (*part(rows), *part(validation_rows))


def write(path, ijcnn1):
    rows, validation_rows, columns = 35_000, 14_990, 22
    if ijcnn1:
        features, labels = read_libsvm(pathlib.Path(ijcnn1) / "ijcnn1.trn.bz2", rows + validation_rows, columns)
        parts = features[:rows], labels[:rows], features[rows:], labels[rows:]
    else:
        parts = generate(rows, validation_rows, columns)
    # Penalties are learned as logarithms; -6 is where a mean loss over ijcnn1 is neither free nor flat.
    theta = np.full(columns, -6.0)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as out:
        np.array([rows, validation_rows, columns], dtype="<i8").tofile(out)
        for part in (*parts, theta):
            np.ascontiguousarray(part, dtype="<f8").tofile(out)


def read(path):
    with path.open("rb") as source:
        rows, validation_rows, columns = (int(v) for v in np.fromfile(source, dtype="<i8", count=3))
        take = lambda count: np.fromfile(source, dtype="<f8", count=count)
        return (
            take(rows * columns).reshape(rows, columns),
            take(rows),
            take(validation_rows * columns).reshape(validation_rows, columns),
            take(validation_rows),
            take(columns),
        )


def race(path, repeats, tolerance):
    import jax
    import jax.numpy as jnp
    import jaxopt

    jax.config.update("jax_enable_x64", True)
    x, y, validation_x, validation_y, theta = (jnp.asarray(part) for part in read(path))

    def mean_loss(phi, features, labels):
        return jnp.mean(jnp.logaddexp(0.0, -labels * (features @ phi)))

    def inner(phi, theta):
        return mean_loss(phi, x, y) + 0.5 * jnp.sum(jnp.exp(theta) * phi**2)

    solver = jaxopt.LBFGS(fun=inner, tol=tolerance, maxiter=1000, implicit_diff=True)

    def outer(theta):
        phi, state = solver.run(jnp.zeros(x.shape[1]), theta)
        return mean_loss(phi, validation_x, validation_y), (phi, state.iter_num)

    hypergradient = jax.jit(jax.value_and_grad(outer, has_aux=True))
    for _ in range(2):
        jax.block_until_ready(hypergradient(theta))
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        result = jax.block_until_ready(hypergradient(theta))
        seconds.append(time.perf_counter() - start)
    (value, (phi, iterations)), gradient = result
    print(
        json.dumps(
            {
                "seconds": statistics.median(seconds),
                "fastest_seconds": min(seconds),
                "repeats": repeats,
                "gradient": [float(v) for v in gradient],
                "outer_value": float(value),
                "inner_gradient_norm": float(jnp.linalg.norm(jax.grad(inner)(phi, theta))),
                "inner_iterations": int(iterations),
                "tolerance": tolerance,
                "versions": {name: importlib.metadata.version(name) for name in ("jax", "jaxlib", "jaxopt", "numpy")},
            }
        )
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["write", "time"])
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("--ijcnn1", help="folder with ijcnn1.trn.bz2; without it data of the same shape are drawn")
    parser.add_argument("--repeats", type=int, default=11)
    parser.add_argument("--tolerance", type=float, default=1e-5)
    arguments = parser.parse_args()
    if arguments.action == "write":
        write(arguments.file, arguments.ijcnn1)
    else:
        race(arguments.file, arguments.repeats, arguments.tolerance)


main()
