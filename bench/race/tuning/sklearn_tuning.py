"""The peer's side of race (b): scikit-learn's own tuners as users run them.

    sklearn_tuning.py prepare SET FOLDER          writes FOLDER/SET.csv (features standardised, fold, target) and SET-test.csv
    sklearn_tuning.py time SET FOLDER             fits, prints JSON [{peer, seconds, validation_loss, test_loss, chosen}]

Sets: a9a, ijcnn1 (LogisticRegressionCV; their own test files), cpusmall, abalone (RidgeCV and LassoCV; a fifth of the rows is
the test). Both sides use the same five folds and judge by the mean over them of the mean loss: log loss, or half the squared error.
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
from sklearn.metrics import log_loss
from sklearn.model_selection import PredefinedSplit


def read(name, data):
    """Features, target, test features, test target."""
    if name in ("a9a", "ijcnn1"):
        files = ("a9a/a9a", "a9a/a9a.t") if name == "a9a" else ("ijcnn1/ijcnn1.trn.bz2", "ijcnn1/ijcnn1.tst.bz2")
        features = 123 if name == "a9a" else 22
        parts = [load_svmlight_file(bz2.open(data / f) if f.endswith("bz2") else str(data / f), n_features=features)
                 for f in files]
        return *(parts[0][0].toarray(), parts[0][1]), *(parts[1][0].toarray(), parts[1][1])
    if name == "cpusmall":
        with gzip.open(data / "cpusmall/227_cpu_small.tsv.gz", "rt") as source:
            table = np.loadtxt(source, delimiter="\t", skiprows=1)
    else:
        rows = [line.strip().split(",") for line in open(data / "abalone/abalone.data")]
        table = np.array([[row[0] == s for s in "MFI"] + [float(v) for v in row[1:]] for row in rows], dtype=float)
    order = np.random.default_rng(2).permutation(len(table))
    test, train = table[order[:len(table) // 5]], table[order[len(table) // 5:]]
    return train[:, :-1], train[:, -1], test[:, :-1], test[:, -1]


def prepare(name, data, folder):
    x, y, test_x, test_y = read(name, data)
    varied = x.std(axis=0) > 0
    mean, spread = x[:, varied].mean(axis=0), x[:, varied].std(axis=0)
    fold = np.random.default_rng(1).permutation(len(y)) % 5
    header = ",".join([f"f{j}" for j in range(varied.sum())] + ["fold", "target"])
    folder.mkdir(parents=True, exist_ok=True)
    for file, features, target, folds in ((f"{name}.csv", x, y, fold), (f"{name}-test.csv", test_x, test_y, 0 * test_y)):
        np.savetxt(folder / file, np.column_stack([(features[:, varied] - mean) / spread, folds, target]), delimiter=",",
                   header=header, comments="", fmt="%.17g")


def load(path):
    table = np.loadtxt(path, delimiter=",", skiprows=1)
    return table[:, :-2], table[:, -1], table[:, -2].astype(int)


def run(name, folder):
    x, y, fold = load(folder / f"{name}.csv")
    test_x, test_y, _ = load(folder / f"{name}-test.csv")
    split = PredefinedSplit(fold)
    results = []

    def fit(peer, model, validation_loss, chosen):
        start = time.perf_counter()
        model.fit(x, y)
        seconds = time.perf_counter() - start
        if hasattr(model, "predict_proba"):
            test_loss = log_loss(test_y, model.predict_proba(test_x))
        else:
            test_loss = np.mean((model.predict(test_x) - test_y) ** 2) / 2
        results.append({"peer": peer, "seconds": seconds, "validation_loss": float(validation_loss(model)),
                        "test_loss": float(test_loss), "chosen": float(chosen(model))})

    if name in ("a9a", "ijcnn1"):
        for peer, solver in (("LogisticRegressionCV", "lbfgs"), ("LogisticRegressionCV, newton-cholesky", "newton-cholesky")):
            fit(peer, LogisticRegressionCV(Cs=10, cv=split, scoring="neg_log_loss", n_jobs=-1, solver=solver),
                lambda m: -next(iter(m.scores_.values())).mean(axis=0).max(), lambda m: m.C_[0])
    else:
        fit("RidgeCV", RidgeCV(alphas=np.logspace(-4, 5, 21), cv=split, scoring="neg_mean_squared_error"),
            lambda m: -m.best_score_ / 2, lambda m: m.alpha_)
        fit("LassoCV", LassoCV(cv=split, n_jobs=-1), lambda m: m.mse_path_.mean(axis=1).min() / 2, lambda m: m.alpha_)
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
