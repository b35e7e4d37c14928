"""The sets of shared/data as arrays: read(name, folder) -> (features, target), sparse where the file is."""

import bz2
import functools
import gzip

import numpy as np
import scipy.sparse as sparse
from sklearn.datasets import load_svmlight_file


def libsvm(paths, columns):
    parts = []
    for path in paths:
        opener = {".bz2": bz2.open, ".gz": gzip.open}.get(path.suffix, open)
        with opener(path, "rb") as source:
            parts.append(load_svmlight_file(source, n_features=columns))
    return sparse.vstack([x for x, _ in parts]).tocsr(), np.concatenate([y for _, y in parts])


def most_frequent(x, count):
    """Columns that are most often there, wherever they are: no label is looked at."""
    filled = np.asarray((x != 0).sum(axis=0)).ravel()
    return x[:, np.sort(np.argsort(-filled, kind="stable")[:count])].tocsr()


def table(path, skip=0, delimiter=","):
    with (gzip.open if path.suffix == ".gz" else open)(path, "rt") as source:
        return np.loadtxt(source, delimiter=delimiter, skiprows=skip)


def last_column(values):
    return values[:, :-1], values[:, -1]


def abalone(data):
    rows = [line.strip().split(",") for line in open(data / "abalone/abalone.data")]
    sexes = np.array([[row[0] == sex for sex in "MFI"] for row in rows], dtype=float)
    numbers = np.array([[float(cell) for cell in row[1:]] for row in rows])
    return np.hstack([sexes, numbers[:, :-1]]), numbers[:, -1]


def diabetes(data):
    return (table(data / "sklearn/diabetes_data_raw.csv.gz", delimiter=None),
            table(data / "sklearn/diabetes_target.csv.gz", delimiter=None))


def wine_alcohol(data):
    x, _ = last_column(table(data / "sklearn/wine_data.csv", skip=1))
    return x[:, 1:], x[:, 0]


def covtype_elevation(data):
    x, _ = last_column(table(data / "covtype/covtype.20k.data"))
    return x[:, 1:], x[:, 0]


def covtype_two(data):
    x, y = last_column(table(data / "covtype/covtype.20k.data"))
    keep = y <= 2
    return x[keep], y[keep]


def digits(data, kept):
    x, y = last_column(table(data / "sklearn/digits.csv.gz"))
    keep = np.isin(y, kept)
    return x[keep], y[keep]


def leukemia(data):
    """Logarithms of the 150 genes that vary most."""
    x, y = libsvm([data / f"leukemia/leukemia.{part}.svm.gz" for part in ("train", "test")], 7129)
    x = np.log(np.maximum(x.toarray(), 20))
    return x[:, np.sort(np.argsort(-x.var(axis=0), kind="stable")[:150])], y


def mnist(data, block):
    """The training pictures as means over blocks of pixels."""
    with gzip.open(data / "mnist/train-images-idx3-ubyte.gz") as source:
        pixels = np.frombuffer(source.read(), np.uint8, offset=16).reshape(60000, 28, 28)
    with gzip.open(data / "mnist/train-labels-idx1-ubyte.gz") as source:
        labels = np.frombuffer(source.read(), np.uint8, offset=8).astype(float)
    side = 28 // block
    return pixels.reshape(60000, side, block, side, block).mean(axis=(2, 4)).reshape(60000, -1), labels


def mnist_two(data):
    x, y = mnist(data, 2)
    keep = (y == 3) | (y == 8)
    return x[keep], y[keep]


def news_thousand(data):
    """Two groups of two: whether a text is on sport or on science, by 1,000 words."""
    x, y = libsvm([data / f"20news/20news_w1000.{part}.svm.gz" for part in ("train", "test")], 1000)
    names = (data / "20news/20news_w1000.classes.txt").read_text().split()
    sport, science = (np.isin(y, [k + 1 for k, name in enumerate(names) if start in name]) for start in ("rec.sport", "sci."))
    keep = sport | science
    return x[np.flatnonzero(keep)], sport[keep].astype(float)


READERS = {
    "20news": lambda data: libsvm([data / "20news/20news_w100.svm.gz"], 100),
    "20news-words": news_thousand,
    "a9a": lambda data: libsvm([data / "a9a/a9a", data / "a9a/a9a.t"], 123),
    "abalone": abalone,
    "breast-cancer": lambda data: last_column(table(data / "sklearn/breast_cancer.csv", skip=1)),
    "covtype": lambda data: last_column(table(data / "covtype/covtype.20k.data")),
    "covtype-elevation": covtype_elevation,
    "covtype-two": covtype_two,
    "cpusmall": lambda data: last_column(table(data / "cpusmall/227_cpu_small.tsv.gz", skip=1, delimiter="\t")),
    "diabetes": diabetes,
    "digits-five": lambda data: digits(data, (0, 1, 2, 3, 4)),
    "digits-two": lambda data: digits(data, (3, 8)),
    "housing": lambda data: libsvm([data / "housing/housing_scale"], 13),
    "ijcnn1": lambda data: libsvm([data / "ijcnn1/ijcnn1.trn.bz2"], 22),
    "iris": lambda data: last_column(table(data / "sklearn/iris.csv", skip=1)),
    "leukemia": leukemia,
    "mnist": lambda data: mnist(data, 4),
    "mnist-two": mnist_two,
    "mushrooms": lambda data: libsvm([data / f"mushrooms/agaricus.txt.{part}" for part in ("train", "test")], 127),
    "reuters": lambda data: libsvm([data / f"reuters/reuters.{part}.bz2" for part in ("trn", "tst")], 8315),
    "wine": lambda data: last_column(table(data / "sklearn/wine_data.csv", skip=1)),
    "wine-alcohol": wine_alcohol,
}


@functools.lru_cache(maxsize=2)
def read(name, folder):
    x, y = READERS[name](folder)
    if name == "reuters":
        x = most_frequent(x, 1500)
    # Only text is kept sparse: the others are small, or their columns are made into products.
    if sparse.issparse(x) and x.shape[1] < 500:
        x = x.toarray()
    return x, y
