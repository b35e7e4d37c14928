"""The peer's side of race (b): scikit-learn's own tuners as users run them.

    sklearn_tuning.py prepare SET FOLDER          writes FOLDER/SET.csv (features standardised, target, fold) for both sides
    sklearn_tuning.py time SET FOLDER             fits, prints JSON {seconds, validation_loss, chosen}

Sets: a9a, ijcnn1 (LogisticRegressionCV), cpusmall, abalone (RidgeCV and LassoCV). Both sides use the same five folds and
judge by the mean over them of the mean loss: log loss, or half the squared error.
"""

import argparse
import bz2
import gzip
import json
import pathlib
import time

import numpy as np
from sklearn.datasets import load_svmlight_file
from sklearn.linear_model import LassoCV, LogisticRegressionCV, RidgeCV
from sklearn.model_selection import PredefinedSplit


def read(name, data):
    if name == "a9a":
        x, y = load_svmlight_file(str(data / "a9a/a9a"))
    elif name == "ijcnn1":
        with bz2.open(data / "ijcnn1/ijcnn1.trn.bz2") as source:
            x, y = load_svmlight_file(source)
    elif name == "cpusmall":
        with gzip.open(data / "cpusmall/227_cpu_small.tsv.gz", "rt") as source:
            table = np.loadtxt(source, delimiter="\t", skiprows=1)
        return table[:, :-1], table[:, -1]
    else:
        rows = [line.strip().split(",") for line in open(data / "abalone/abalone.data")]
        sexes = np.array([[row[0] == s for s in "MFI"] for row in rows], dtype=float)
        table = np.array([[float(v) for v in row[1:]] for row in rows])
        return np.hstack([sexes, table[:, :-1]]), table[:, -1]
    return x.toarray(), y


def prepare(name, data, folder):
    x, y = read(name, data)
    x = x[:, x.std(axis=0) > 0]
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    fold = np.random.default_rng(1).permutation(len(y)) % 5
    header = ",".join([f"f{j}" for j in range(x.shape[1])] + ["fold", "target"])
    folder.mkdir(parents=True, exist_ok=True)
    np.savetxt(folder / f"{name}.csv", np.column_stack([x, fold, y]), delimiter=",", header=header, comments="", fmt="%.17g")


def load(name, folder):
    table = np.loadtxt(folder / f"{name}.csv", delimiter=",", skiprows=1)
    return table[:, :-2], table[:, -1], table[:, -2].astype(int)


def timed(model, x, y):
    start = time.perf_counter()
    model.fit(x, y)
    return time.perf_counter() - start


def run(name, folder):
    x, y, fold = load(name, folder)
    split = PredefinedSplit(fold)
    results = []
    if name in ("a9a", "ijcnn1"):
        model = LogisticRegressionCV(Cs=10, cv=split, scoring="neg_log_loss", n_jobs=-1)
        seconds = timed(model, x, y)
        scores = -next(iter(model.scores_.values())).mean(axis=0)
        results.append({"peer": "LogisticRegressionCV", "seconds": seconds, "validation_loss": float(scores.min()),
                        "chosen": float(model.C_[0])})
        model = LogisticRegressionCV(Cs=10, cv=split, scoring="neg_log_loss", n_jobs=-1, solver="newton-cholesky")
        seconds = timed(model, x, y)
        scores = -next(iter(model.scores_.values())).mean(axis=0)
        results.append({"peer": "LogisticRegressionCV, newton-cholesky", "seconds": seconds,
                        "validation_loss": float(scores.min()), "chosen": float(model.C_[0])})
    else:
        model = RidgeCV(alphas=np.logspace(-4, 5, 21), cv=split, scoring="neg_mean_squared_error")
        seconds = timed(model, x, y)
        results.append({"peer": "RidgeCV", "seconds": seconds, "validation_loss": float(-model.best_score_ / 2),
                        "chosen": float(model.alpha_)})
        model = LassoCV(cv=split, n_jobs=-1)
        seconds = timed(model, x, y)
        results.append({"peer": "LassoCV", "seconds": seconds,
                        "validation_loss": float(model.mse_path_.mean(axis=1).min() / 2), "chosen": float(model.alpha_)})
    print(json.dumps(results))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["prepare", "time"])
    parser.add_argument("set", choices=["a9a", "ijcnn1", "cpusmall", "abalone"])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--data", type=pathlib.Path)
    a = parser.parse_args()
    prepare(a.set, a.data, a.folder) if a.action == "prepare" else run(a.set, a.folder)


main()
