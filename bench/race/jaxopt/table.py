"""Turns the results of bench/run-race into a markdown table: medians over rounds, and the ratio within each round."""

import json
import pathlib
import statistics
import sys

import numpy as np

folder = pathlib.Path(sys.argv[1])
results = {}
for path in sorted(folder.iterdir()):
    name, _, turn = path.name.rpartition(".")
    results.setdefault(name, {})[int(turn)] = json.loads(path.read_text())
peer = results["peer"]
versions = ", ".join(f"{k} {v}" for k, v in peer[1]["versions"].items())
reference = np.array(results["newton"][1]["gradient"])
labels = {
    "peer": "jaxopt LBFGS + implicit differentiation, jitted",
    "newton": "bilevel newton + direct, certified",
    "newton-1-thread": "bilevel newton + direct, certified, 1 thread",
    "lbfgs": "bilevel lbfgs + cg, certified",
}
print(f"{versions}; {len(peer)} rounds, median of 11 repeats each, 2 warm-up calls before\n")
print("| method | median ms | times faster, median (least, most) of the rounds | inner residual | gradient differs by | bound |")
print("|---|---|---|---|---|---|")
for name in ("peer", "lbfgs", "newton-1-thread", "newton"):
    rounds = results[name]
    ratios = sorted(peer[t]["seconds"] / rounds[t]["seconds"] for t in rounds)
    one = rounds[1]
    difference = np.linalg.norm(np.array(one["gradient"]) - reference) / np.linalg.norm(reference)
    bound = f"{one['bound']:.1e} ({one['kind']}, {one['verdict']})" if "bound" in one else "none given"
    print(
        f"| {labels[name]} | {1e3 * statistics.median(r['seconds'] for r in rounds.values()):.2f} "
        f"| {statistics.median(ratios):.1f} ({ratios[0]:.1f}, {ratios[-1]:.1f}) | {one['inner_gradient_norm']:.1e} | {difference:.1e} | {bound} |"
    )
