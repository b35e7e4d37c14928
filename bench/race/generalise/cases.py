"""The cases: each a function of (set, rows, variant, split), whoever asks.

The SETS are divided once and for all. Constants of the procedure may be chosen on `dev`; `report` is what is published, and is
not looked at while anything is chosen. All that comes from one file stays on one side.
"""

import dataclasses
import hashlib
import zlib

import numpy as np
import scipy.sparse as sparse
from sklearn.model_selection import train_test_split

import sets

HALVES = {
    "dev": ("diabetes", "cpusmall", "breast-cancer", "a9a", "leukemia", "wine", "digits", "20news"),
    "report": ("abalone", "housing", "ijcnn1", "mushrooms", "reuters", "iris", "covtype", "mnist"),
}
MOST_TEST_ROWS = 5000
USELESS_COLUMNS = 50


@dataclasses.dataclass(frozen=True)
class Case:
    set: str  # a key of sets.READERS; its first part names the set of HALVES
    rows: int  # to train on
    model: str  # of `bilevel tune --model`
    variant: str = ""  # "", "products", "useless", or both with a plus

    @property
    def name(self):
        model = f"-{self.model}" if self.model in ("lasso", "elastic-net", "huber", "poisson", "squared-hinge") else ""
        variant = f"-{self.variant}" if self.variant else ""
        return f"{self.set}-{self.rows}{model}{variant}"

    @property
    def half(self):
        return next(half for half, names in HALVES.items()
                    if any(self.set == name or self.set.startswith(name + "-") for name in names))

    @property
    def classes(self):
        return self.model in ("logistic", "softmax", "squared-hinge")


CASES = [
    Case("diabetes", 60, "ridge", "useless"),
    Case("diabetes", 100, "ridge"),
    Case("diabetes", 200, "ridge", "products"),
    Case("diabetes", 300, "lasso", "useless"),
    Case("cpusmall", 60, "ridge"),
    Case("cpusmall", 400, "huber"),
    Case("cpusmall", 500, "ridge", "useless"),
    Case("cpusmall", 1000, "ridge", "products"),
    Case("cpusmall", 2400, "ridge"),
    Case("wine-alcohol", 70, "ridge"),
    Case("breast-cancer", 100, "logistic"),
    Case("breast-cancer", 400, "logistic"),
    Case("breast-cancer", 300, "logistic", "useless"),
    Case("a9a", 400, "logistic"),
    Case("a9a", 3000, "logistic"),
    Case("leukemia", 50, "logistic"),
    Case("digits-two", 150, "logistic"),
    Case("20news-words", 400, "logistic"),
    Case("wine", 70, "softmax"),
    Case("wine", 70, "softmax", "useless"),
    Case("digits-five", 300, "softmax"),
    Case("20news", 300, "softmax"),
    Case("20news", 2000, "softmax"),
    Case("abalone", 100, "ridge", "useless"),
    Case("abalone", 500, "ridge", "products"),
    Case("abalone", 2000, "ridge"),
    Case("abalone", 400, "poisson", "products"),
    Case("housing", 60, "ridge"),
    Case("housing", 300, "ridge", "products"),
    Case("housing", 200, "lasso", "products"),
    Case("housing", 200, "huber", "useless"),
    Case("covtype-elevation", 150, "ridge"),
    Case("covtype-elevation", 1500, "ridge"),
    Case("ijcnn1", 500, "logistic"),
    Case("ijcnn1", 4000, "logistic", "products"),
    Case("ijcnn1", 1500, "logistic", "useless"),
    Case("mushrooms", 150, "logistic"),
    Case("mushrooms", 1000, "logistic"),
    Case("reuters", 500, "logistic"),
    Case("covtype-two", 500, "logistic", "useless"),
    Case("mnist-two", 200, "logistic"),
    Case("iris", 50, "softmax"),
    Case("iris", 50, "softmax", "products+useless"),
    Case("covtype", 500, "softmax"),
    Case("covtype", 2000, "softmax"),
    Case("mnist", 500, "softmax"),
]


def seed(*parts):
    return zlib.crc32("/".join(map(str, parts)).encode())


def with_products(x):
    """Squares and products of the columns in units of their spread; the square of a column of two values is the column again."""
    z = (x - x.mean(axis=0)) / np.where(x.std(axis=0) > 0, x.std(axis=0), 1)
    made = [z[:, i] * z[:, j] for i in range(z.shape[1]) for j in range(i, z.shape[1])
            if i != j or len(np.unique(z[:, i])) > 2]
    made = np.column_stack(made)
    return np.hstack([x, made[:, made.std(axis=0) > 1e-9]])


def with_useless(x, draw):
    """Columns of the same kind that say nothing: real ones, each shuffled over the rows."""
    chosen = draw.choice(x.shape[1], USELESS_COLUMNS, replace=x.shape[1] < USELESS_COLUMNS)
    return np.hstack([x, np.column_stack([draw.permutation(x[:, j]) for j in chosen])])


@dataclasses.dataclass
class Split:
    train_x: np.ndarray
    train_y: np.ndarray
    test_x: np.ndarray
    test_y: np.ndarray
    set_rows: int
    sparse: bool

    def fingerprint(self):
        digest = hashlib.sha256()
        for part in (self.train_x, self.train_y, self.test_x, self.test_y):
            digest.update(np.ascontiguousarray(part, dtype="<f8").tobytes())
        return digest.hexdigest()[:20]


def draw_split(case, split, folder):
    x, y = sets.read(case.set, folder)
    is_sparse = sparse.issparse(x)
    if "products" in case.variant:
        x = with_products(x)
    if "useless" in case.variant:
        x = with_useless(x, np.random.default_rng(seed(case.set, "useless")))
    kept = np.arange(len(y))
    stratify = (lambda rows: y[rows]) if case.classes else (lambda rows: None)
    rows_of = seed(case.set, case.rows, case.variant, split)
    train, test = train_test_split(kept, train_size=case.rows, random_state=rows_of, stratify=stratify(kept))
    if len(test) > MOST_TEST_ROWS:
        test, _ = train_test_split(test, train_size=MOST_TEST_ROWS, random_state=rows_of, stratify=stratify(test))
    dense = (lambda rows: x[rows].toarray()) if is_sparse else (lambda rows: np.ascontiguousarray(x[rows], dtype=float))
    train_x, test_x = dense(train), dense(test)
    # What the training rows never show is left out for everyone, as the program does.
    varied = train_x.std(axis=0) > 1e-12 * (1 + np.abs(train_x).max(axis=0))
    return Split(train_x[:, varied], y[train], test_x[:, varied], y[test], len(y), is_sparse)
