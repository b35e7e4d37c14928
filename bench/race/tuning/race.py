"""Runs the races of `bilevel tune` and prints markdown. Called by bench/run-tuning-race, which sets things up.

    race.py ijcnn1|sklearn|sparse|scale --program BILEVEL --data FOLDER --work FOLDER [--rounds N]
"""

import argparse
import bz2
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys

import numpy as np

here = pathlib.Path(__file__).parent
PER_FEATURE = ["--penalty", "per-feature", "--prior-width", "inf"]  # as many penalties as features, all free


def tune(program, arguments, work):
    """The JSON of a run, and the peak of its memory in bytes."""
    result = work / "result.json"
    result.unlink(missing_ok=True)
    command = [program, "tune", *arguments, "--json", str(result), "--checkpoint", str(work / "ckpt")]
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    done = subprocess.run(command, capture_output=True, text=True)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    if not result.exists():
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return json.loads(result.read_text()), max(peak, before) * 1024


def peer(script, *arguments):
    done = subprocess.run([sys.executable, str(here / script), *map(str, arguments)], capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stdout.strip().splitlines()[-1])


def first_within(history, target):
    return next((seconds for seconds, value in history if value <= target), None)


def ijcnn1(a):
    train, validation = a.work / "ijcnn1.tr", a.work / "ijcnn1.val"
    if not validation.exists():
        lines = bz2.open(a.data / "ijcnn1/ijcnn1.trn.bz2").readlines()
        train.write_bytes(b"".join(lines[:35000]))
        validation.write_bytes(b"".join(lines[35000:]))
    ours = ["--validation", str(validation), "--test", "0", "--model", "logistic", "--no-standardize", "--no-intercept",
            "--tolerance", "1e-7", *PER_FEATURE]
    runs = {"bilevel tune": [], "jaxopt, L-BFGS on θ": [], "jaxopt, gradient descent on θ": []}
    for _ in range(a.rounds):
        r, _ = tune(a.program, [str(train), *ours], a.work)
        grid = r["baseline"]["grid"]
        best, clock, history = float("inf"), 0.0, []
        for point in grid["points"]:
            clock += point["seconds"]
            best = min(best, point["validation_loss"])
            history.append([clock, best])
        history += [[clock + h["seconds"], h["outer_value"]] for h in r["history"] if h["accepted"]]
        runs["bilevel tune"].append(history)
        # They start from the best of our grid, for which they are not charged.
        for name, method in (("jaxopt, L-BFGS on θ", "lbfgs"), ("jaxopt, gradient descent on θ", "descent")):
            runs[name].append(peer("jaxopt_tuning.py", train, validation, method, "--seconds", 60, "--tolerance", 1e-8,
                                   f"--start={grid['log_lambda']}")["history"])
    optimum = min(value for many in runs.values() for history in many for _, value in history)
    target = optimum + 1e-6 * abs(optimum)
    print(f"ijcnn1, 35,000 rows to train, 14,990 to validate, 22 penalties; seconds until the validation loss is within 1e-6 "
          f"of the best seen, {optimum:.9f}; medians of {a.rounds}; {os.cpu_count()} cores. Reading and compiling not "
          f"counted; ours includes the grid, the others start from its best, {grid['validation_loss']:.9f}.\n")
    print("| | seconds | best reached | times ours |\n|---|---|---|---|")
    ours_seconds = None
    for name, many in runs.items():
        times = [first_within(history, target) for history in many]
        reached = all(t is not None for t in times)
        seconds = statistics.median(times) if reached else statistics.median(h[-1][0] for h in many)
        ours_seconds = ours_seconds or seconds
        lowest = min(value for history in many for _, value in history)
        print(f"| {name} | {'' if reached else 'not within '}{seconds:.3f} | {lowest:.9f} | "
              f"{'' if reached else '> '}{seconds / ours_seconds:.1f} |")


def sklearn(a):
    print(f"Five folds, the same for both; features standardised beforehand; medians of {a.rounds}; {os.cpu_count()} cores. "
          "Reading not counted.\n")
    print("| set | tuner | validation loss | test loss | seconds | times ours | times ours, one λ | fits |\n" + "|---" * 8 + "|")
    for name in ("a9a", "ijcnn1", "cpusmall", "abalone"):
        if not (a.work / f"{name}-test.csv").exists():
            subprocess.run([sys.executable, str(here / "sklearn_tuning.py"), "prepare", name, str(a.work), "--data",
                            str(a.data)], check=True)
        common = [str(a.work / f"{name}.csv"), "--target", "target", "--split", "fold", "--test",
                  str(a.work / f"{name}-test.csv"), "--no-standardize"]
        models = ("logistic",) if name in ("a9a", "ijcnn1") else ("ridge", "lasso")
        asked = [(model, penalty) for model in models for penalty in ("auto", "global")]
        own, peers = {each: [] for each in asked}, []
        # In turn, so that a passing load meets both sides.
        for _ in range(a.rounds):
            peers.append(peer("sklearn_tuning.py", "time", name, a.work))
            for model, penalty in asked:
                own[model, penalty].append(tune(a.program, [*common, "--model", model, "--penalty", penalty], a.work)[0])
        median = {each: statistics.median(r["seconds"] for r in runs) for each, runs in own.items()}
        for k, first in enumerate(peers[0]):
            model = "lasso" if "Lasso" in first["peer"] else models[0]
            seconds = statistics.median(p[k]["seconds"] for p in peers)
            print(f"| {name} | {first['peer']} | {first['validation_loss']:.6f} | {first['test_loss']:.6f} | {seconds:.3f} | "
                  f"{seconds / median[model, 'auto']:.1f} | {seconds / median[model, 'global']:.1f} | |")
        for model, penalty in asked:
            r = own[model, penalty][0]
            print(f"| | bilevel tune --model {model} --penalty {penalty}: {r['choice']['kind']} | {r['validation_loss']:.6f} | "
                  f"{r['test']['loss']:.6f} | {median[model, penalty]:.3f} | | | {r['fits']} |", flush=True)


def sparse(a):
    rows, columns, per_row = 20000, 100000, 100
    path = a.work / "sparse.svm"
    if not path.exists():
        draw = np.random.default_rng(1)
        weights = np.zeros(columns)
        weights[draw.choice(columns, 200, replace=False)] = draw.normal(0, 3, 200)
        with path.open("w") as out:
            for _ in range(rows):
                # Words of a text: a few common ones, many rare.
                index = np.unique((columns * draw.random(per_row) ** 2).astype(int))
                value = draw.exponential(1, len(index))
                label = 1 if draw.random() < 1 / (1 + np.exp(-value @ weights[index])) else -1
                out.write(f"{label} " + " ".join(f"{i + 1}:{v:.5f}" for i, v in zip(index, value)) + "\n")
    arguments = [str(path), "--validation", "0.25", "--test", "0", "--iterations", "10", "--grid", "11",
                 *PER_FEATURE]
    # The JSON of a hundred thousand penalties is larger than the data: memory without it.
    subprocess.run([a.program, "tune", *arguments, "--checkpoint", str(a.work / "ckpt")], stdout=subprocess.DEVNULL)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    r, _ = tune(a.program, arguments, a.work)
    bytes_of = 12 * r["data"]["nonzeros"] + 4 * rows
    steps = [h["seconds"] for h in r["history"]]
    print(f"Generated text-like data, {rows} × {columns}, {r['data']['nonzeros']} stored ({r['data']['storage']}): "
          f"{r['model']['hyperparameters']} penalties, {steps[-1] / len(steps):.2f} s an outer evaluation, peak memory "
          f"{peak / 2**20:.0f} MiB, {peak / bytes_of:.1f} times the data ({bytes_of / 2**20:.0f} MiB).")


def scale(a):
    print("| rows × 100 | seconds an outer evaluation | relative to rows | peak memory, GiB |\n|---|---|---|---|")
    for rows in (125_000, 250_000, 500_000, 1_000_000):
        path = a.work / f"scale-{rows}.npy"
        if not path.exists():
            draw = np.random.default_rng(1)
            out = np.lib.format.open_memmap(path, mode="w+", dtype="<f8", shape=(rows, 101))
            for first in range(0, rows, 25_000):
                x = draw.standard_normal((25_000, 100))
                margin = x[:, :5] @ np.array([1, -1, 0.5, -0.5, 0.25])
                out[first:first + 25_000, :100] = x
                out[first:first + 25_000, 100] = draw.random(25_000) < 1 / (1 + np.exp(-margin))
            out.flush()
            del out
        code = ("import json,resource,subprocess,sys; subprocess.run(sys.argv[1:],check=False,stdout=subprocess.DEVNULL); "
                "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)")
        result = a.work / "scale.json"
        result.unlink(missing_ok=True)
        command = [a.program, "tune", str(path), "--model", "logistic", "--validation", "0.2", "--test", "0", "--iterations",
                   "10", "--grid", "5", *PER_FEATURE, "--json", str(result), "--checkpoint", str(a.work / "ckpt")]
        peak = int(subprocess.run([sys.executable, "-c", code, *command], capture_output=True, text=True).stdout) * 1024
        r = json.loads(result.read_text())
        seconds = r["history"][-1]["seconds"] / len(r["history"])
        print(f"| {rows:,} | {seconds:.3f} | {1e6 * seconds / rows:.3f} µs a row | {peak / 2**30:.2f} |")
        path.unlink()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("race", choices=["ijcnn1", "sklearn", "sparse", "scale"])
    parser.add_argument("--program", required=True)
    parser.add_argument("--data", type=pathlib.Path, required=True)
    parser.add_argument("--work", type=pathlib.Path, required=True)
    parser.add_argument("--rounds", type=int, default=3)
    a = parser.parse_args()
    a.work.mkdir(parents=True, exist_ok=True)
    {"ijcnn1": ijcnn1, "sklearn": sklearn, "sparse": sparse, "scale": scale}[a.race](a)


main()
