#!/usr/bin/env python3
"""One outer step of few-shot learning of sinusoids, as bench/meta_race.cpp makes it, by others: a network of 1-40-40-1 tanh units, a
learned centre ω and strength exp(ρ), inner steps of gradient descent from ω on the mean squared error of the shots +
½ exp(ρ)‖φ − ω‖², products of conjugate gradients, Adam on (ω, ρ). One JSON object a line for each way to write it:

    torch-loop    PyTorch, task by task, derivatives by autograd, conjugate gradients by hand
    torch-batched PyTorch, all tasks as one tensor
    torchopt      TorchOpt's implicit differentiation (custom_root, solve_cg), task by task as in its own examples
    jax           jitted as a whole, tasks by vmap

    meta_peer.py [--device cpu] [--tasks 25] [--shots 10] [--inner-steps 16] [--products 5] [--repeats 20] [--ways torch-loop,jax]
"""
import argparse
import json
import math
import os
import time

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import numpy as np
import torch

SHAPES = [(1, 40), (40,), (40, 40), (40,), (40, 1), (1,)]
INNER_RATE, OUTER_RATE, START = 0.01, 1e-3, math.log(0.01)  # of inner steps, of Adam, ρ


def start(seed=1):
    draw = np.random.default_rng(seed)
    return [draw.normal(size=s).astype(np.float32) / math.sqrt(s[0]) if len(s) == 2 else np.zeros(s, np.float32)
            for s in SHAPES]


def batch(tasks, shots, seed):
    draw = np.random.default_rng(seed)
    amplitude = draw.uniform(0.1, 5, (tasks, 1, 1))
    phase = draw.uniform(0, math.pi, (tasks, 1, 1))
    x = draw.uniform(-5, 5, (tasks, 2 * shots, 1))
    y = amplitude * np.sin(x + phase)
    x, y = x.astype(np.float32), y.astype(np.float32)
    return x[:, :shots], y[:, :shots], x[:, shots:], y[:, shots:]


# --- PyTorch


def forward(w, x):
    h = torch.tanh(x @ w[0] + w[1])
    h = torch.tanh(h @ w[2] + w[3])
    return h @ w[4] + w[5]


def dot(a, b):
    return sum((p * q).sum() for p, q in zip(a, b))


def conjugate_gradients(product, above, products, dot=dot, scaled=lambda s, a: s * a):
    pi = [torch.zeros_like(a) for a in above]
    r, p = [a.clone() for a in above], [a.clone() for a in above]
    rr = dot(r, r)
    for _ in range(products):
        hp = product(p)
        alpha = rr / dot(p, hp)
        pi = [a + scaled(alpha, b) for a, b in zip(pi, p)]
        r = [a - scaled(alpha, b) for a, b in zip(r, hp)]
        new = dot(r, r)
        p = [a + scaled(new / rr, b) for a, b in zip(r, p)]
        rr = new
    return pi


def torch_loop(said, device):
    centre = [torch.tensor(w, device=device, requires_grad=True) for w in start()]
    strength = torch.tensor(START, device=device, requires_grad=True)
    adam = torch.optim.Adam([*centre, strength], lr=OUTER_RATE)

    def step(data):
        sums, value = [torch.zeros_like(w) for w in [*centre, strength]], 0.0
        for x, y, qx, qy in zip(*data):
            def inner(w):
                return (forward(w, x) - y).pow(2).mean() + 0.5 * strength.exp() * sum(
                    (a - b).pow(2).sum() for a, b in zip(w, centre))
            w = [c.detach().clone().requires_grad_() for c in centre]
            for _ in range(said.inner_steps):
                slope = torch.autograd.grad(inner(w), w)
                w = [(a - INNER_RATE * g).detach().requires_grad_() for a, g in zip(w, slope)]
            outer = (forward(w, qx) - qy).pow(2).mean()
            above = torch.autograd.grad(outer, w)
            slope = torch.autograd.grad(inner(w), w, create_graph=True)
            pi = conjugate_gradients(lambda v: torch.autograd.grad(slope, w, v, retain_graph=True), above, said.products)
            for s, g in zip(sums, torch.autograd.grad(slope, [*centre, strength], pi)):
                s -= g / said.tasks
            value = value + outer.detach() / said.tasks
        for p, s in zip([*centre, strength], sums):
            p.grad = s
        adam.step()
        return float(value)

    return step


def torch_batched(said, device):
    centre = [torch.tensor(w, device=device, requires_grad=True) for w in start()]
    strength = torch.tensor(START, device=device, requires_grad=True)
    adam = torch.optim.Adam([*centre, strength], lr=OUTER_RATE)

    def run(w, x):  # with a leading dimension of tasks
        h = torch.tanh(torch.baddbmm(w[1].unsqueeze(1), x, w[0]))
        h = torch.tanh(torch.baddbmm(w[3].unsqueeze(1), h, w[2]))
        return torch.baddbmm(w[5].unsqueeze(1), h, w[4])

    def per_task_dot(a, b):
        return sum((p * q).flatten(1).sum(1) for p, q in zip(a, b))

    def scaled(scale, like):
        return scale.view(-1, *[1] * (like.dim() - 1)) * like

    def step(data):
        x, y, qx, qy = data

        def inner(w):
            return (run(w, x) - y).pow(2).mean((1, 2)).sum() + 0.5 * strength.exp() * sum(
                (a - b).pow(2).sum() for a, b in zip(w, centre))

        w = [c.detach().expand(said.tasks, *c.shape).clone().requires_grad_() for c in centre]
        for _ in range(said.inner_steps):
            slope = torch.autograd.grad(inner(w), w)
            w = [(a - INNER_RATE * g).detach().requires_grad_() for a, g in zip(w, slope)]
        outer = (run(w, qx) - qy).pow(2).mean((1, 2)).sum() / said.tasks
        above = torch.autograd.grad(outer, w)
        slope = torch.autograd.grad(inner(w), w, create_graph=True)
        pi = conjugate_gradients(lambda v: torch.autograd.grad(slope, w, v, retain_graph=True), above, said.products,
                                 per_task_dot, scaled)
        for q, g in zip([*centre, strength], torch.autograd.grad(slope, [*centre, strength], pi)):
            q.grad = -g
        adam.step()
        return float(outer.detach())

    return step


def torch_opt(said, device):
    import torchopt

    centre = tuple(torch.tensor(w, device=device, requires_grad=True) for w in start())
    strength = torch.tensor(START, device=device, requires_grad=True)
    adam = torch.optim.Adam([*centre, strength], lr=OUTER_RATE)

    def inner(w, centre, strength, x, y):
        return (forward(w, x) - y).pow(2).mean() + 0.5 * strength.exp() * sum(
            (a - b).pow(2).sum() for a, b in zip(w, centre))

    @torchopt.diff.implicit.custom_root(
        torch.func.grad(inner, argnums=0), argnums=(1, 2),
        solve=torchopt.linear_solve.solve_cg(maxiter=said.products, rtol=0, atol=0))
    def adapt(w, centre, strength, x, y):
        with torch.enable_grad():
            w = tuple(a.detach().clone().requires_grad_() for a in w)
            for _ in range(said.inner_steps):
                slope = torch.autograd.grad(inner(w, centre, strength, x, y), w)
                w = tuple((a - INNER_RATE * g).detach().requires_grad_() for a, g in zip(w, slope))
        return w

    def step(data):
        value = 0.0
        for x, y, qx, qy in zip(*data):
            value = value + (forward(adapt(centre, centre, strength, x, y), qx) - qy).pow(2).mean() / said.tasks
        adam.zero_grad()
        value.backward()
        adam.step()
        return float(value.detach())

    return step


# --- JAX


def jax_jitted(said, device):
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_default_matmul_precision", "highest")
    place = jax.devices("gpu" if device == "cuda" else "cpu")[0]

    def run(w, x):
        h = jnp.tanh(x @ w[0] + w[1])
        h = jnp.tanh(h @ w[2] + w[3])
        return h @ w[4] + w[5]

    def inner(w, theta, x, y):
        centre, strength = theta
        return ((run(w, x) - y) ** 2).mean() + 0.5 * jnp.exp(strength) * sum(
            ((a - b) ** 2).sum() for a, b in zip(w, centre))

    def one(theta, x, y, qx, qy):
        descend = lambda _, w: jax.tree.map(lambda a, g: a - INNER_RATE * g, w, jax.grad(inner)(w, theta, x, y))
        w = jax.lax.fori_loop(0, said.inner_steps, descend, theta[0])
        value, above = jax.value_and_grad(lambda w: ((run(w, qx) - qy) ** 2).mean())(w)
        product = lambda v: jax.jvp(lambda w: jax.grad(inner)(w, theta, x, y), (w,), (v,))[1]
        pi, _ = jax.scipy.sparse.linalg.cg(product, above, maxiter=said.products, tol=0.0, atol=0.0)
        _, pull = jax.vjp(lambda theta: jax.grad(inner)(w, theta, x, y), theta)
        return value, jax.tree.map(jnp.negative, pull(pi)[0])

    @jax.jit
    def whole(theta, moments, k, data):
        value, slope = jax.vmap(one, in_axes=(None, 0, 0, 0, 0))(theta, *data)
        slope = jax.tree.map(lambda g: g.mean(0), slope)
        m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, moments[0], slope)
        v = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, moments[1], slope)
        theta = jax.tree.map(
            lambda t, m, v: t - OUTER_RATE * (m / (1 - 0.9**k)) / (jnp.sqrt(v / (1 - 0.999**k)) + 1e-8), theta, m, v)
        return value.mean(), theta, (m, v)

    state = {"theta": ([jax.device_put(w, place) for w in start()], jax.device_put(np.float32(START), place)), "k": 0}
    zero = jax.tree.map(jnp.zeros_like, state["theta"])
    state["moments"] = (zero, zero)

    def step(data):
        state["k"] += 1
        value, state["theta"], state["moments"] = whole(
            state["theta"], state["moments"], jnp.float32(state["k"]), data)
        return float(value)

    step.place = lambda data: [jax.device_put(a, place) for a in data]
    return step


WAYS = {"torch-loop": torch_loop, "torch-batched": torch_batched, "torchopt": torch_opt, "jax": jax_jitted}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--tasks", type=int, default=25)
    parser.add_argument("--shots", type=int, default=10)
    parser.add_argument("--inner-steps", type=int, default=16)
    parser.add_argument("--products", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--ways", default=",".join(WAYS))
    said, _ = parser.parse_known_args()
    for name in said.ways.split(","):
        try:
            step = WAYS[name](said, said.device)
        except ImportError as missing:
            print(json.dumps({"way": name, "left_out": str(missing)}), flush=True)
            continue
        place = getattr(step, "place", lambda data: [torch.tensor(a, device=said.device) for a in data])
        seconds, values = [], []
        if said.device == "cuda" and not name == "jax":
            torch.cuda.reset_peak_memory_stats()
        for i in range(said.repeats + 2):
            data = place(batch(said.tasks, said.shots, i))
            begin = time.perf_counter()
            values.append(step(data))
            if i >= 2:
                seconds.append(time.perf_counter() - begin)
        peak = torch.cuda.max_memory_allocated() if said.device == "cuda" and name != "jax" else None
        print(json.dumps({"way": name, "tasks": said.tasks, "seconds": sorted(seconds)[len(seconds) // 2],
                          "first_values": values[:3], "device_bytes": peak}), flush=True)


if __name__ == "__main__":
    main()
