"""Equilibrium propagation in PyTorch, as users write it, beside ours on the same weights and the same batch.

    E(s; x) = sum_k 1/2 |s_k|^2 - s_k.(W_k s_{k-1} + b_k),   s_0 = x,   s_k in [0, 1]
    L_out   = 1/2 |s_K - y|^2
    s      <- clip(s - step * d(E + beta L_out)/ds)          20 steps free, then 4 steps nudged
    gradient = d/dW of mean (E(s_beta) - E(s_0)) / beta,     then W <- W - rate * gradient

Every derivative is autograd's: with respect to the states in each step, with respect to the weights at the end. The
row "inputs kept" does by hand what ours does, W_1 x once for all steps.

    energy.py PROGRAM FILE [--rounds 5]     PROGRAM is bench_torch_race, FILE what both sides read

FILE is plain and little-endian: int64 n_0, n_1, n_2, batch; then float32 W_1 column by column, b_1, W_2, b_2, inputs
and targets one sample after the other. Ours writes its gradient, laid out like the weights, into FILE.gradient.
"""

import argparse
import json
import os
import statistics
import subprocess
import time

import numpy as np
import torch

LAYERS, BATCH, FREE, NUDGED, STEP, BETA, RATE = (784, 512, 10), 128, 20, 4, 0.5, 0.5, 1e-7
REPEATS = 30


class Network(torch.nn.Module):
    def __init__(self, keep_inputs):
        super().__init__()
        self.synapses = torch.nn.ModuleList(torch.nn.Linear(n, m) for n, m in zip(LAYERS, LAYERS[1:]))
        self.keep_inputs = keep_inputs

    def energy(self, states, received):
        """One number a sample; `received` is W_1 x + b_1."""
        value = sum(0.5 * (s * s).sum(1) for s in states) - (states[0] * received).sum(1)
        for below, synapse, s in zip(states, list(self.synapses)[1:], states[1:]):
            value = value - (s * synapse(below)).sum(1)
        return value

    def relax(self, states, x, y, beta, steps):
        received = self.synapses[0](x).detach() if self.keep_inputs else None
        for _ in range(steps):
            total = self.energy(states, self.synapses[0](x) if received is None else received).sum()
            if beta != 0:
                total = total + beta * 0.5 * ((states[-1] - y) ** 2).sum()
            slopes = torch.autograd.grad(total, states)
            states = [(s - STEP * g).detach().clamp_(0, 1).requires_grad_() for s, g in zip(states, slopes)]
        return states

    def gradient(self, x, y):
        start = [torch.zeros(len(x), n, requires_grad=True) for n in LAYERS[1:]]
        free = self.relax(start, x, y, 0, FREE)
        nudged = self.relax(free, x, y, BETA, NUDGED)
        received = self.synapses[0](x)
        difference = self.energy([s.detach() for s in nudged], received) - self.energy(
            [s.detach() for s in free], received
        )
        return torch.autograd.grad(difference.mean() / BETA, list(self.parameters()))

    def train(self, x, y):
        slopes = self.gradient(x, y)
        with torch.no_grad():
            for parameter, slope in zip(self.parameters(), slopes):
                parameter -= RATE * slope


def flat(parameters):
    """Weights column by column, then the bias, layer after layer."""
    return np.concatenate([p.detach().numpy().T.ravel() for p in parameters])


def median_seconds(call, repeats):
    times = []
    for i in range(repeats + 3):
        start = time.perf_counter()
        call()
        if i >= 3:
            times.append(time.perf_counter() - start)
    return statistics.median(times)


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("program")
    arguments.add_argument("file")
    arguments.add_argument("--rounds", type=int, default=5)
    arguments = arguments.parse_args()

    torch.manual_seed(1)
    threads = int(os.environ.get("OMP_NUM_THREADS", os.cpu_count()))
    torch.set_num_threads(threads)
    x = torch.rand(BATCH, LAYERS[0])
    y = torch.eye(LAYERS[-1])[torch.arange(BATCH) % LAYERS[-1]]
    plain, kept = Network(False), Network(True)
    kept.load_state_dict(plain.state_dict())
    with open(arguments.file, "wb") as file:
        file.write(np.array([*LAYERS, BATCH], dtype="<i8").tobytes())
        for part in (flat(plain.parameters()), x.numpy(), y.numpy()):
            file.write(np.ascontiguousarray(part, dtype="<f4").tobytes())

    def ours(schedule):
        step = STEP if schedule == "gradient" else 1
        command = [arguments.program, arguments.file, schedule, str(step), str(BETA), str(REPEATS)]
        return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)["seconds"]

    theirs = flat(plain.gradient(x, y))
    ours("gradient")
    mine = np.fromfile(arguments.file + ".gradient", dtype="<f4")
    difference = np.linalg.norm(mine - theirs) / np.linalg.norm(theirs)
    alike = np.linalg.norm(flat(kept.gradient(x, y)) - theirs) / np.linalg.norm(theirs)
    assert max(difference, alike) <= 1e-4, f"gradients differ by {difference:.1e} and {alike:.1e}"

    rows = {
        "PyTorch, autograd in every step": lambda: median_seconds(lambda: plain.train(x, y), REPEATS),
        "PyTorch, inputs kept": lambda: median_seconds(lambda: kept.train(x, y), REPEATS),
        "bilevel, the same gradient steps": lambda: ours("gradient"),
        "bilevel, even-odd steps (default)": lambda: ours("even-odd"),
    }
    seconds = {name: [] for name in rows}
    for _ in range(arguments.rounds):
        for name, run in rows.items():
            seconds[name].append(run())

    network = "-".join(map(str, LAYERS))
    print(
        f"torch {torch.__version__} (Debian), {threads} thread(s); clipped Hopfield network {network}, batch {BATCH}, "
        f"{FREE}/{NUDGED} steps; {arguments.rounds} rounds, median of {REPEATS} training steps each; "
        f"with the same steps the gradients differ by {difference:.1e}\n"
    )
    print("| method | ms a training step | samples/s | times faster, median (least, most) of the rounds |")
    print("|---|---|---|---|")
    peer = seconds["PyTorch, autograd in every step"]
    for name, each in seconds.items():
        ratios = sorted(a / b for a, b in zip(peer, each))
        middle = statistics.median(each)
        print(
            f"| {name} | {1e3 * middle:.2f} | {BATCH / middle:.0f} "
            f"| {statistics.median(ratios):.1f} ({ratios[0]:.1f}, {ratios[-1]:.1f}) |"
        )


main()
