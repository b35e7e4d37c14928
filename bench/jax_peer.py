#!/usr/bin/env python3
"""What bench/torch_hypergradient.cpp measures, as users of jaxopt and optimistix write it: jitted, on the numbers that
torch_peer.py draws, products of float32 in full precision. One JSON object a line; a package that is not there is left out.

    jax_peer.py [--device cpu] [--sizes 100000,1000000] [--repeats 5] [--products 10] [--layer 1]
"""
import functools
import json
import os
import time

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import jax
import jax.numpy as jnp
import numpy as np
import torch

import torch_peer

try:
    import jaxopt
except ImportError:
    jaxopt = None
try:
    import lineax
    import optimistix
except ImportError:
    lineax = optimistix = None

jax.config.update("jax_default_matmul_precision", "highest")


def as_jax(tensor, device):
    return jax.device_put(np.asarray(tensor.detach().cpu()), device)


def error(w, x, y):
    logits = jnp.tanh(jnp.tanh(x @ w[0]) @ w[1]) @ w[2]
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), y[:, None], axis=1).mean()


def inner(w, theta, x, y):
    return error(w, x, y) + sum(0.5 * jnp.exp(theta[i]) * (w[i] ** 2).sum() for i in range(len(w)))


def by_jaxopt(products, w, theta, x, y, held_out_x, held_out_y):
    above = jax.grad(error)(w, held_out_x, held_out_y)
    solve = functools.partial(jaxopt.linear_solve.solve_cg, maxiter=products, tol=1e-30)
    slope = jax.grad(inner)
    return jaxopt.implicit_diff.root_vjp(lambda w, theta: slope(w, theta, x, y), w, (theta,), above, solve=solve)[0]


def median_seconds(repeats, call):
    seconds = []
    for i in range(repeats + 2):
        start = time.perf_counter()
        answer = jax.block_until_ready(call())
        if i >= 2:
            seconds.append(time.perf_counter() - start)
    return sorted(seconds)[len(seconds) // 2], answer


def say(**what):
    print(json.dumps(what), flush=True)


def hypergradients(size, device, repeats, products):
    drawn = torch_peer.network(size, "cpu")
    w = [as_jax(each, device) for each in drawn[0]]
    data = [as_jax(each, device) for each in drawn[1:]]
    theta = jax.device_put(np.zeros(3, np.float32), device)
    count = sum(each.size for each in w)
    if jaxopt is not None:
        jitted = jax.jit(functools.partial(by_jaxopt, products))
        seconds, gradient = median_seconds(repeats, lambda: jitted(w, theta, *data))
        say(what="peer", peer="jaxopt", weights=count, seconds=float(f"{seconds:.6g}"), gradient=[float(f"{g:.9g}") for g in gradient])

    steps = 200
    decays = jnp.full(3, -6.0, jnp.float32)

    @jax.jit
    def descend(w):
        slope = jax.grad(inner)
        step = lambda _, w: jax.tree_util.tree_map(lambda a, g: a - 1e-2 * g, w, slope(w, decays, *data[:2]))
        return jax.lax.fori_loop(0, steps, step, w)

    seconds, _ = median_seconds(repeats, lambda: descend(w))
    say(what="inner loop", peer="jax, no value and no check", weights=count, seconds_a_step=float(f"{seconds / steps:.4g}"))


def layers(device, repeats, width=1024, batch=256):
    torch.manual_seed(2)
    w = as_jax(0.7 * torch.randn(width, width) / (2 * width**0.5), device)
    x = as_jax(torch.randn(batch, width), device)

    def cell(phi, w, x):
        return jnp.tanh(phi @ w + x)

    ways = {}
    if jaxopt is not None:
        solve = functools.partial(jaxopt.linear_solve.solve_gmres, tol=1e-3, maxiter=20)
        anderson = jaxopt.AndersonAcceleration(cell, tol=1e-4 * batch**0.5, maxiter=200, implicit_diff=True, implicit_diff_solve=solve)
        ways["jaxopt Anderson, GMRES"] = lambda w, x: anderson.run(jnp.zeros_like(x), w, x).params
    if optimistix is not None:
        solver = optimistix.FixedPointIteration(rtol=1e-4, atol=1e-4)
        adjoint = optimistix.ImplicitAdjoint(lineax.GMRES(rtol=1e-3, atol=1e-6))
        ways["optimistix FixedPointIteration, GMRES"] = lambda w, x: optimistix.fixed_point(
            lambda phi, args: cell(phi, *args), solver, jnp.zeros_like(x), (w, x), adjoint=adjoint, max_steps=200, throw=False).value
    for name, settle in ways.items():
        forward, phi = median_seconds(repeats, lambda f=jax.jit(settle): f(w, x))
        both, _ = median_seconds(repeats, lambda f=jax.jit(jax.grad(lambda w, x: settle(w, x).sum(), (0, 1))): f(w, x))
        residual = jnp.linalg.norm(phi - cell(phi, w, x)) / jnp.linalg.norm(phi)
        say(what="layer", peer=name, width=width, batch=batch, forward_seconds=float(f"{forward:.6g}"),
            both_seconds=float(f"{both:.6g}"), residual=float(f"{residual:.2g}"))


def main():
    parser = torch_peer.options()
    parser.add_argument("--layer", type=int, default=1)
    said, _ = parser.parse_known_args()
    device = jax.devices(said.device)[0]
    for size in said.sizes.split(","):
        hypergradients(int(size), device, said.repeats, said.products)
    if said.layer:
        layers(device, said.repeats)


if __name__ == "__main__":
    main()
