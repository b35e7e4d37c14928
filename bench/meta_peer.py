#!/usr/bin/env python3
"""One outer step of few-shot learning of sinusoids, as bench/meta_race.cpp makes it, by others: a network of 1-40-40-1 tanh units, a
learned centre ω and strength exp(ρ), weights ω + exp(−ρ/2)·φ as ours are, inner steps of gradient descent from φ = 0 on the mean
squared error of the shots + ½‖φ‖², products of conjugate gradients, Adam on (ω, ρ). One JSON object a line for each way to write it:

    torch-loop    PyTorch, task by task, derivatives by autograd, conjugate gradients by hand
    torch-batched PyTorch, all tasks as one tensor
    torchopt      TorchOpt's implicit differentiation (custom_root, solve_cg), task by task as in its own examples
    jax           jitted as a whole, tasks by vmap

What is raced must learn, too: `first_values` and `value_at_repeats` are L_out of the same tasks from the same start, and equal
to rounding from way to way; with --learn N the quick ways go on to N steps, and `learned` is the mean of L_out over the
last tenth of them, each before its step on tasks that nobody has seen.

    meta_peer.py [--device cpu] [--tasks 25] [--shots 10] [--inner-steps 16] [--products 5] [--repeats 20] [--learn 0]
                 [--ways torch-loop,jax]
"""
import argparse
import json
import math
import os
import resource
import time

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import numpy as np
import torch

SHAPES = [(1, 40), (40,), (40, 40), (40,), (40, 1), (1,)]
INNER_RATE, OUTER_RATE, START = 1e-4, 1e-3, math.log(0.01)  # of inner steps, of Adam, ρ


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


def weights(phi, centre, strength):
    return [c + (-0.5 * strength).exp() * f for c, f in zip(centre, phi)]


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


def split(slopes):
    return slopes[:len(SHAPES)], slopes[len(SHAPES):]


def torch_loop(said, device):
    centre = [torch.tensor(w, device=device, requires_grad=True) for w in start()]
    strength = torch.tensor(START, device=device, requires_grad=True)
    adam = torch.optim.Adam([*centre, strength], lr=OUTER_RATE)

    def step(data):
        sums, value = [torch.zeros_like(w) for w in [*centre, strength]], 0.0
        for x, y, qx, qy in zip(*data):
            def inner(phi, *theta):
                return (forward(weights(phi, *theta), x) - y).pow(2).mean() + 0.5 * sum(f.pow(2).sum() for f in phi)
            fixed = [c.detach() for c in centre], strength.detach()
            phi = [torch.zeros_like(c).requires_grad_() for c in fixed[0]]
            for _ in range(said.inner_steps):
                slope = torch.autograd.grad(inner(phi, *fixed), phi)
                phi = [(a - INNER_RATE * g).detach().requires_grad_() for a, g in zip(phi, slope)]
            outer = (forward(weights(phi, centre, strength), qx) - qy).pow(2).mean()
            above, direct = split(torch.autograd.grad(outer, [*phi, *centre, strength]))
            slope = torch.autograd.grad(inner(phi, centre, strength), phi, create_graph=True)
            pi = conjugate_gradients(lambda v: torch.autograd.grad(slope, phi, v, retain_graph=True), above, said.products)
            for s, d, g in zip(sums, direct, torch.autograd.grad(slope, [*centre, strength], pi)):
                s += (d - g) / said.tasks
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

        def inner(phi, *theta):
            return (run(weights(phi, *theta), x) - y).pow(2).mean((1, 2)).sum() + 0.5 * sum(f.pow(2).sum() for f in phi)

        fixed = [c.detach() for c in centre], strength.detach()
        phi = [torch.zeros(said.tasks, *c.shape, device=device).requires_grad_() for c in centre]
        for _ in range(said.inner_steps):
            slope = torch.autograd.grad(inner(phi, *fixed), phi)
            phi = [(a - INNER_RATE * g).detach().requires_grad_() for a, g in zip(phi, slope)]
        outer = (run(weights(phi, centre, strength), qx) - qy).pow(2).mean((1, 2)).sum() / said.tasks
        above, direct = split(torch.autograd.grad(outer, [*phi, *centre, strength]))
        slope = torch.autograd.grad(inner(phi, centre, strength), phi, create_graph=True)
        pi = conjugate_gradients(lambda v: torch.autograd.grad(slope, phi, v, retain_graph=True), above, said.products,
                                 per_task_dot, scaled)
        for q, d, g in zip([*centre, strength], direct, torch.autograd.grad(slope, [*centre, strength], pi)):
            q.grad = d - g
        adam.step()
        return float(outer.detach())

    return step


def torch_opt(said, device):
    import torchopt

    centre = tuple(torch.tensor(w, device=device, requires_grad=True) for w in start())
    strength = torch.tensor(START, device=device, requires_grad=True)
    adam = torch.optim.Adam([*centre, strength], lr=OUTER_RATE)

    def inner(phi, centre, strength, x, y):
        return (forward(weights(phi, centre, strength), x) - y).pow(2).mean() + 0.5 * sum(f.pow(2).sum() for f in phi)

    @torchopt.diff.implicit.custom_root(
        torch.func.grad(inner, argnums=0), argnums=(1, 2),
        solve=torchopt.linear_solve.solve_cg(maxiter=said.products, rtol=0, atol=0))
    def adapt(phi, centre, strength, x, y):
        with torch.enable_grad():
            phi = tuple(a.detach().clone().requires_grad_() for a in phi)
            for _ in range(said.inner_steps):
                slope = torch.autograd.grad(inner(phi, centre, strength, x, y), phi)
                phi = tuple((a - INNER_RATE * g).detach().requires_grad_() for a, g in zip(phi, slope))
        return phi

    def step(data):
        value = 0.0
        for x, y, qx, qy in zip(*data):
            phi = adapt(tuple(torch.zeros_like(c) for c in centre), centre, strength, x, y)
            value = value + (forward(weights(phi, centre, strength), qx) - qy).pow(2).mean() / said.tasks
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

    def weights(phi, theta):
        return jax.tree.map(lambda c, f: c + jnp.exp(-0.5 * theta[1]) * f, theta[0], phi)

    def inner(phi, theta, x, y):
        return ((run(weights(phi, theta), x) - y) ** 2).mean() + 0.5 * sum((f ** 2).sum() for f in phi)

    def one(theta, x, y, qx, qy):
        descend = lambda _, phi: jax.tree.map(lambda a, g: a - INNER_RATE * g, phi, jax.grad(inner)(phi, theta, x, y))
        phi = jax.lax.fori_loop(0, said.inner_steps, descend, jax.tree.map(jnp.zeros_like, theta[0]))
        value, (above, direct) = jax.value_and_grad(
            lambda phi, theta: ((run(weights(phi, theta), qx) - qy) ** 2).mean(), argnums=(0, 1))(phi, theta)
        product = lambda v: jax.jvp(lambda phi: jax.grad(inner)(phi, theta, x, y), (phi,), (v,))[1]
        pi, _ = jax.scipy.sparse.linalg.cg(product, above, maxiter=said.products, tol=0.0, atol=0.0)
        _, pull = jax.vjp(lambda theta: jax.grad(inner)(phi, theta, x, y), theta)
        return value, jax.tree.map(lambda d, g: d - g, direct, pull(pi)[0])

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
QUICK = ("torch-batched", "jax")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--tasks", type=int, default=25)
    parser.add_argument("--shots", type=int, default=10)
    parser.add_argument("--inner-steps", type=int, default=16)
    parser.add_argument("--products", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--learn", type=int, default=0)
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
        row = {"way": name, "tasks": said.tasks, "seconds": sorted(seconds)[len(seconds) // 2],
               "first_values": values[:3], "value_at_repeats": values[said.repeats + 1], "device_bytes": peak,
               # Of all that this process has done: ask for one way to know its own.
               "process_bytes": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}
        if name in QUICK and said.learn > len(values):
            for i in range(len(values), said.learn):
                values.append(step(place(batch(said.tasks, said.shots, i))))
            row["steps"], row["learned"] = said.learn, float(np.mean(values[-max(1, said.learn // 10):]))
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
