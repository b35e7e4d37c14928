"""scikit-learn's tuners on the rows of a split, standardised on its training rows, each fit in a process with a time limit."""

import json
import multiprocessing
import os
import resource
import signal
import time
import warnings

import numpy as np
import sklearn
from sklearn.linear_model import ARDRegression, BayesianRidge, ElasticNetCV, LassoCV, LogisticRegressionCV, RidgeCV
from sklearn.preprocessing import StandardScaler

import losses

SECONDS = 30  # of processor time for one fit
TOO_SLOW = f"more than {SECONDS} s"
PENALTIES = 10.0 ** np.arange(-4, 4.01, 0.5)


def regression():
    return {
        "RidgeCV": RidgeCV(alphas=10.0 ** np.arange(-4, 6.01, 0.5)),
        "LassoCV": LassoCV(cv=5, max_iter=5000),
        "ElasticNetCV": ElasticNetCV(cv=5, l1_ratio=[0.1, 0.5, 0.7, 0.9, 0.95, 0.99, 1], max_iter=5000),
        "ARDRegression": ARDRegression(),
        "BayesianRidge": BayesianRidge(),
    }


def classification(seed, classes):
    # liblinear knows two classes only, and penalises the intercept, which a large scaling makes harmless.
    l1 = (LogisticRegressionCV(Cs=PENALTIES[:-4], cv=5, penalty="l1", solver="liblinear", scoring="neg_log_loss",
                               intercept_scaling=10, random_state=seed)
          if classes == 2 else
          LogisticRegressionCV(Cs=PENALTIES[:-4:2], cv=5, penalty="l1", solver="saga", scoring="neg_log_loss", max_iter=200,
                               random_state=seed))
    return {"LogisticRegressionCV": LogisticRegressionCV(Cs=PENALTIES, cv=5, scoring="neg_log_loss", max_iter=300),
            "LogisticRegressionCV, L1": l1}


NAMES = ("RidgeCV", "LassoCV", "ElasticNetCV", "ARDRegression", "BayesianRidge", "LogisticRegressionCV",
         "LogisticRegressionCV, L1")


def peers_of(case, split, classes):
    """Those whose loss is the case's own; Huber, Poisson and hinge losses have no tuner in scikit-learn."""
    if case.model in ("ridge", "lasso", "elastic-net"):
        return regression()
    return classification(split, classes) if case.model in ("logistic", "softmax") else {}


def fit(model, rows):
    warnings.filterwarnings("ignore")  # an unconverged fit is judged by its predictions like any other
    scaler = StandardScaler().fit(rows.train_x)
    train_x, test_x = scaler.transform(rows.train_x), scaler.transform(rows.test_x)
    begin = time.perf_counter()
    model.fit(train_x, rows.train_y)
    seconds = time.perf_counter() - begin
    if hasattr(model, "predict_log_proba"):
        loss = losses.log_loss(model.predict_log_proba(test_x), rows.test_y, model.classes_)
    else:
        loss = losses.squared(model.predict(test_x), rows.test_y)
    return {"loss": loss, "seconds": seconds}


def child(model, rows, answers):
    # Processor time, so that a busy machine turns nobody away; the signal ends compiled loops, which look at no clock.
    resource.setrlimit(resource.RLIMIT_CPU, (int(SECONDS), int(SECONDS) + 5))
    try:
        answers.send(fit(model, rows))
    except Exception as failure:  # whatever it is, the bench goes on without this fit
        answers.send({"loss": None, "why": f"{type(failure).__name__}: {failure}"[:200]})


def fit_within_limit(model, rows):
    receiving, sending = multiprocessing.Pipe(duplex=False)
    worker = multiprocessing.Process(target=child, args=(model, rows, sending))
    worker.start()
    sending.close()
    try:
        return receiving.recv()
    except EOFError:
        worker.join()
        over = worker.exitcode == -signal.SIGXCPU
        return {"loss": None, "why": TOO_SLOW if over else f"ended with {worker.exitcode} and no answer"}
    finally:
        worker.join()


def write_whole(path, text):
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    temporary.write_text(text)
    os.replace(temporary, path)


def read_cache(path):
    try:
        return json.loads(path.read_text())
    except (OSError, json.JSONDecodeError):
        return {}


def results(case, split, rows, cache, may_fit):
    """{peer: {loss, seconds} or {loss: None, why}}. Kept under a key of the very rows and the very settings of the peer."""
    found = {}
    path = cache / case.name / f"{split}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    fingerprint = rows.fingerprint()
    gave_up = path.parent / "too-slow.json"
    for name, model in peers_of(case, split, len(np.unique(rows.train_y))).items():
        settings = f"{name} {json.dumps({k: repr(v) for k, v in sorted(model.get_params().items()) if k != 'random_state'})}"
        key = f"{fingerprint} {sklearn.__version__} {np.__version__} {settings}"
        kept = read_cache(path).get(key)
        # One fit over the limit speaks for the other splits of its case, which have as many rows.
        slow_key = f"{settings} {SECONDS}"
        if kept is None and slow_key in read_cache(gave_up):
            kept = {"loss": None, "why": f"{TOO_SLOW} on another split"}
        elif kept is None and may_fit:
            kept = fit_within_limit(model, rows)
            write_whole(path, json.dumps(read_cache(path) | {key: kept}, indent=1))
            if kept.get("why") == TOO_SLOW:
                write_whole(gave_up, json.dumps(read_cache(gave_up) | {slow_key: split}))
        if kept is not None:
            found[name] = kept
    return found
