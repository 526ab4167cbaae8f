"""The numbers behind the words strong, medium and weak: log-odds, fitted on labelled cases, never set by authors.

`diagnose rules calibrate` fits the table again (logistic regression with a pull towards these values, judged by
cross-validation over source threads); its output replaces `WEIGHTS`.
"""

import math
from collections.abc import Mapping

WEIGHTS: dict[str, float] = {
    "strong": 2.9,
    "medium": 2.5,
    "weak": 1.4,
    "supported": 0.9,
    "not_supported": -0.05,
    "weakened": -1.75,
    "applies_unknown": -0.05,
    "none_unknown": 0.0,
    "more_signs": 1.2,
}
"""Term -> log-odds. A finding starts at the term of its strength; each further term counts as often as it holds:
a supporting sign found or looked for in vain, a weakening sign found, a limit or a refuting sign that could not be
checked (at most two limits, one refuting sign), further signs of an ``any`` beyond the first (at most two)."""


def log_odds(terms: Mapping[str, int], weights: Mapping[str, float] = WEIGHTS) -> float:
    """The sum of the terms."""
    return sum(weights[term] * count for term, count in terms.items())


def probability(odds: float) -> float:
    """Log-odds to probability, kept away from certainty."""
    return min(0.99, max(0.01, 1 / (1 + math.exp(-odds))))
