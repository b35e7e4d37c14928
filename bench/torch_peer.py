#!/usr/bin/env python3
"""The hypergradient of bench/torch_hypergradient.cpp as a user of PyTorch writes it: autograd, and conjugate gradients by
hand. The same numbers are drawn in the same order. One JSON object a line.

    torch_peer.py [--device cpu] [--sizes 100000,1000000] [--repeats 5] [--products 10]
"""
import argparse
import json
import math
import time

import torch

INPUTS, OUTPUTS, BATCH = 64, 10, 256


def network(weights, device):
    torch.manual_seed(1)
    sides = INPUTS + OUTPUTS
    width = max(1, round((-sides + math.sqrt(sides * sides + 4.0 * weights)) / 2))
    shape = [INPUTS, width, width, OUTPUTS]
    w = [(torch.randn(shape[i], shape[i + 1]) / math.sqrt(shape[i])).to(device).requires_grad_() for i in range(3)]
    x = torch.randn(BATCH, INPUTS).to(device)
    y = torch.randint(OUTPUTS, (BATCH,)).to(device)
    held_out_x = torch.randn(BATCH, INPUTS).to(device)
    held_out_y = torch.randint(OUTPUTS, (BATCH,)).to(device)
    return w, x, y, held_out_x, held_out_y


def error(w, x, y):
    return torch.nn.functional.cross_entropy(torch.tanh(torch.tanh(x @ w[0]) @ w[1]) @ w[2], y)


def dot(a, b):
    return sum((p * q).sum() for p, q in zip(a, b))


def hypergradient(w, theta, x, y, held_out_x, held_out_y, products):
    above = torch.autograd.grad(error(w, held_out_x, held_out_y), w)
    inner = error(w, x, y) + sum(0.5 * theta[i].exp() * w[i].pow(2).sum() for i in range(len(w)))
    slope = torch.autograd.grad(inner, w, create_graph=True)

    pi = [torch.zeros_like(a) for a in above]
    r = [a.clone() for a in above]
    p = [a.clone() for a in above]
    rr = dot(r, r)
    for _ in range(products):
        hp = torch.autograd.grad(slope, w, p, retain_graph=True)
        alpha = rr / dot(p, hp)
        pi = [a + alpha * b for a, b in zip(pi, p)]
        r = [a - alpha * b for a, b in zip(r, hp)]
        new = dot(r, r)
        if new.sqrt().item() <= 1e-30:
            break
        p = [a + (new / rr) * b for a, b in zip(r, p)]
        rr = new
    return -torch.autograd.grad(slope, theta, pi)[0], rr.sqrt().item()


def options():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--sizes", default="100000,1000000")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--products", type=int, default=10)
    return parser


def main():
    said, _ = options().parse_known_args()  # what is for ours alone
    for size in said.sizes.split(","):
        problem = network(int(size), said.device)
        theta = torch.zeros(3, device=said.device, requires_grad=True)
        seconds = []
        for i in range(said.repeats + 1):
            start = time.perf_counter()
            gradient, residual = hypergradient(problem[0], theta, *problem[1:], said.products)
            gradient.sum().item()
            if i > 0:
                seconds.append(time.perf_counter() - start)
        seconds.sort()
        print(json.dumps({"what": "peer", "weights": sum(w.numel() for w in problem[0]),
                          "seconds": float(f"{seconds[len(seconds) // 2]:.6g}"), "residual": residual,
                          "gradient": [float(f"{g:.9g}") for g in gradient.tolist()]}), flush=True)


if __name__ == "__main__":
    main()
