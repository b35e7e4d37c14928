"""The peer's side of race (a): per-feature penalties of a logistic regression on ijcnn1, tuned by jaxopt.

    inner  mean log(1 + exp(-y x.phi)) + 1/2 sum_j exp(theta_j) phi_j^2, by jaxopt.LBFGS with implicit differentiation,
           started where the last solve ended
    outer  mean log(1 + exp(-y x.phi)) on the validation rows, theta in a box, by
             descent  jaxopt.ProjectedGradient (with its own line search)
             lbfgs    jaxopt.LBFGSB

Prints JSON: one [seconds, validation loss] for each outer step, the clock running after everything is compiled.

    jaxopt_tuning.py TRAIN.svm VALIDATION.svm descent|lbfgs [--steps N] [--seconds X] [--tolerance 1e-6]
"""

import argparse
import json
import time

import jax
import jax.numpy as jnp
import jaxopt
import numpy as np
from sklearn.datasets import load_svmlight_files

jax.config.update("jax_enable_x64", True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("train")
    parser.add_argument("validation")
    parser.add_argument("method", choices=["descent", "lbfgs"])
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--tolerance", type=float, default=1e-6)
    parser.add_argument("--start", type=float, default=-6)
    a = parser.parse_args()
    train_x, train_y, validation_x, validation_y = load_svmlight_files([a.train, a.validation])
    x, y = jnp.asarray(train_x.toarray()), jnp.asarray(train_y)
    xv, yv = jnp.asarray(validation_x.toarray()), jnp.asarray(validation_y)

    def loss(phi, features, labels):
        return jnp.mean(jnp.logaddexp(0.0, -labels * (features @ phi)))

    def inner(phi, theta):
        return loss(phi, x, y) + 0.5 * jnp.sum(jnp.exp(theta) * phi**2)

    solver = jaxopt.LBFGS(fun=inner, tol=a.tolerance, maxiter=1000, implicit_diff=True)

    def outer(theta, warm):
        phi, _ = solver.run(warm, theta)
        return loss(phi, xv, yv), phi

    box = (jnp.full(x.shape[1], -10.0), jnp.full(x.shape[1], 10.0))
    if a.method == "descent":
        optimizer = jaxopt.ProjectedGradient(
            fun=outer, projection=jaxopt.projection.projection_box, has_aux=True, tol=0, maxiter=a.steps
        )
        arguments = lambda warm: (box, warm)
    else:
        optimizer = jaxopt.LBFGSB(fun=outer, has_aux=True, tol=0, maxiter=a.steps)
        arguments = lambda warm: (box, warm)
    theta = jnp.full(x.shape[1], float(a.start))
    warm = jnp.zeros(x.shape[1])
    update = jax.jit(optimizer.update)
    value = jax.jit(outer)

    def begin():
        return optimizer.init_state(theta, *arguments(warm))

    state = begin()
    jax.block_until_ready(update(theta, state, *arguments(warm)))
    jax.block_until_ready(value(theta, warm))

    # The clock runs during the steps alone; the loss that is written down, and the warm start, are a gift.
    start = time.perf_counter()
    state = jax.block_until_ready(begin())
    clock = time.perf_counter() - start
    now, history = theta, []
    for _ in range(a.steps):
        start = time.perf_counter()
        now, state = jax.block_until_ready(update(now, state, *arguments(warm)))
        clock += time.perf_counter() - start
        loss_now, warm = jax.block_until_ready(value(now, warm))
        history.append([clock, float(loss_now)])
        if history[-1][0] > a.seconds or (len(history) > 20 and history[-20][1] - history[-1][1] <= 1e-10):
            break
    print(json.dumps({"method": a.method, "history": history, "theta": np.asarray(now).tolist()}))


main()
