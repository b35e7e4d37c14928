"""Test errors over depth, energy and kind of unit: every number is the last epoch's, nothing is picked."""

import argparse
import gzip
import json
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import StandardScaler

KINDS = [("hopfield", "clip"), ("hopfield", "sigmoid"), ("hopfield", "tanh"), ("predictive-coding", "sigmoid"),
         ("predictive-coding", "tanh"), ("resistive", "diode")]


def train(options, data, *arguments):
    """Test error in %, and the seconds; none where the run did not end well."""
    result = options.work / "result.json"
    result.unlink(missing_ok=True)
    said = subprocess.run([options.program, "train", str(data), *map(str, arguments), "--probe", "0", "--json",
                           str(result), "--checkpoint", str(options.work / "run.ckpt")],
                          capture_output=True, text=True)
    if not result.exists():
        print(said.stderr.strip(), file=sys.stderr)
        return float("nan"), float("nan")
    found = json.loads(result.read_text())
    return 100 * found["epochs"][-1]["test_error"], found["seconds"]


def layers(features, width, hidden, classes):
    return "-".join(map(str, [features] + [width] * hidden + [classes]))


def write(path, x, y):
    np.savetxt(path, np.c_[x, y], fmt="%g", delimiter=",")
    return path


def peer(x, y, test_x, test_y, hidden, seed, width):
    scaler = StandardScaler().fit(x)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = MLPClassifier((width,) * hidden, random_state=seed).fit(scaler.transform(x), y)
    return 100 * (1 - model.score(scaler.transform(test_x), test_y))


def table(title, rows):
    print(f"| {title} | 1 | 2 | 3 | 4 |\n|---|---|---|---|---|")
    for name, cells in rows:
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


def digits(options):
    with gzip.open(options.data / "sklearn/digits.csv.gz", "rt") as file:
        all_rows = np.loadtxt(file, delimiter=",")
    splits = []
    for seed in range(1, (options.size or 3) + 1):
        x, test_x, y, test_y = train_test_split(all_rows[:, :-1], all_rows[:, -1].astype(int), test_size=0.2,
                                                random_state=seed, stratify=all_rows[:, -1])
        splits.append((seed, x, y, test_x, test_y, write(options.work / f"digits-{seed}.csv", x, y),
                       write(options.work / f"digits-{seed}-test.csv", test_x, test_y)))
    peers = [[peer(x, y, test_x, test_y, hidden, seed, 128) for seed, x, y, test_x, test_y, _, _ in splits]
             for hidden in range(1, 5)]
    rows = [("MLPClassifier", [f"{np.mean(each):.1f}" for each in peers])]
    worst = -100
    for energy, unit in KINDS:
        cells = []
        for hidden in range(1, 5):
            errors = [train(options, data, "--test", test, "--energy", energy, "--activation", unit, "--layers",
                            layers(64, 128, hidden, 10), "--epochs", 20)[0] for *_, data, test in splits]
            worst = max(worst, np.mean(errors) - np.mean(peers[hidden - 1]))
            cells.append(f"{np.mean(errors):.1f} ({', '.join(f'{e:.1f}' for e in errors)})")
        rows.append((f"{energy}, {unit}", cells))
    table("test error in %, hidden layers", rows)
    print(f"\nAt most {worst:.1f} percentage points above MLPClassifier; aim: 2.")


def mnist(options):
    rows = []
    for energy, unit in KINDS:
        cells = []
        for hidden in range(1, 5):
            error, seconds = train(options, options.data / "mnist", "--rows", options.size or 10000, "--energy", energy,
                                   "--activation", unit, "--layers", layers(784, 128, hidden, 10), "--epochs", 5)
            cells.append(f"{error:.2f} ({seconds:.0f} s)")
        rows.append((f"{energy}, {unit}", cells))
    table("test error in %, hidden layers", rows)


def deep(options):
    error, seconds = train(options, options.data / "mnist", "--layers", "784-512-512-10", "--epochs", options.size or 25)
    print(f"hopfield 784-512-512-10, all of MNIST: test error {error:.2f} % after {seconds:.0f} s; aim: 2.5 %")


def others(options):
    sets = []
    for name in ("wine_data", "breast_cancer"):
        found = np.loadtxt(options.data / f"sklearn/{name}.csv", delimiter=",", skiprows=1)
        sets.append((name, found[:, :-1], found[:, -1].astype(int)))
    rows = []
    for name, x, y in sets:
        x, test_x, y, test_y = train_test_split(x, y, test_size=0.3, random_state=1, stratify=y)
        data, test = write(options.work / f"{name}.csv", x, y), write(options.work / f"{name}-test.csv", test_x, test_y)
        for hidden in (2, 4):
            cells = [f"{peer(x, y, test_x, test_y, hidden, 1, 64):.1f}"]
            for energy, unit in KINDS:
                error, _ = train(options, data, "--test", test, "--energy", energy, "--activation", unit, "--layers",
                                 layers(x.shape[1], 64, hidden, len(set(y))), "--epochs", 20)
                cells.append(f"{error:.1f}")
            rows.append(f"| {name} | {hidden} | " + " | ".join(cells) + " |")
    print("| set | hidden layers | MLPClassifier | " + " | ".join(f"{e}, {u}" for e, u in KINDS) + " |")
    print("|" + "---|" * (3 + len(KINDS)))
    print("\n".join(rows))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["digits", "mnist", "deep", "others"])
    parser.add_argument("--size", type=int, default=0)
    for each in ("program", "data", "work"):
        parser.add_argument(f"--{each}", type=Path, required=True)
    chosen = parser.parse_args()
    {"digits": digits, "mnist": mnist, "deep": deep, "others": others}[chosen.what](chosen)
