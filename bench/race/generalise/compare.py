"""Paired differences of log test loss over splits, and what they say."""

import dataclasses
import math

import numpy as np

SMALLEST = 1e-3  # a mean relative difference below 0.1 % is no difference, however sure
ERRORS = 2.0  # standard errors that a difference must exceed


@dataclasses.dataclass
class Difference:
    """mean, error: of log(loss of one) − log(loss of the other); negative is better.

    corrected_error: splits share rows, so that their differences are correlated and the plain error is too small. Nadeau and
    Bengio (2003) put the correlation at the share of the set that is tested, ρ = test/(train + test), and multiply the
    variance by 1/J + ρ/(1 − ρ) = 1/J + test/train. Here the rows that a split leaves out count in the set as well: two draws of
    400 rows out of 48,842 hardly meet, and are not correlated for having a large test."""

    splits: int
    mean: float
    error: float
    corrected_error: float

    def verdict_by(self, error):
        if self.splits < 2 or abs(self.mean) < SMALLEST or abs(self.mean) <= ERRORS * error:
            return "same"
        return "better" if self.mean < 0 else "worse"

    @property
    def verdict(self):
        return self.verdict_by(self.error)

    @property
    def corrected_verdict(self):
        return self.verdict_by(self.corrected_error)

    @property
    def t(self):
        return self.mean / self.error if self.error > 0 else 0.0

    def as_json(self):
        return dataclasses.asdict(self) | {"t": self.t, "verdict": self.verdict, "corrected_verdict": self.corrected_verdict}


def paired(one, other, floors, test_rows, set_rows):
    """Losses of the same splits; None where one of the two is lacking leaves the split out."""
    logs = [math.log(max(a - f, 1e-300)) - math.log(max(b - f, 1e-300))
            for a, b, f in zip(one, other, floors) if a is not None and b is not None]
    if not logs:
        return None
    d = np.array(logs)
    variance = d.var(ddof=1) if len(d) > 1 else 0.0
    share = test_rows / set_rows
    return Difference(len(d), float(d.mean()), math.sqrt(variance / len(d)),
                      math.sqrt(variance * (1 / len(d) + share / (1 - share))))


def count(verdicts):
    verdicts = list(verdicts)
    return {kind: verdicts.count(kind) for kind in ("better", "same", "worse")}


def lead(counts):
    return counts["better"] - counts["worse"]
