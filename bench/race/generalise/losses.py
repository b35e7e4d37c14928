"""The mean loss of a row as `bilevel tune` writes it, for models that are not bilevel's, and what it can be compared by."""

import numpy as np


def squared(prediction, y):
    return float(np.mean(0.5 * (prediction - y) ** 2))


def log_loss(log_probabilities, y, classes):
    """log_probabilities: rows × classes; a probability that underflowed is worth no more than the smallest double."""
    column = np.searchsorted(classes, y)
    return float(-np.mean(np.maximum(log_probabilities[np.arange(len(y)), column], np.log(np.finfo(float).tiny))))


def floor(model, y):
    """The least that the loss can be on these rows: differences are taken relative to what is above it.

    Zero for all but the Poisson loss exp(m) − ym, whose least is y − y log y (half its deviance is what is above)."""
    if model != "poisson":
        return 0.0
    return float(np.mean(y - y * np.log(np.where(y > 0, y, 1))))
