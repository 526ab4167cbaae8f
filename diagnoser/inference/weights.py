"""The numbers behind the words strong, medium and weak. Log-odds; fitted, never set by rule authors."""

import math
from typing import NamedTuple


class Weights(NamedTuple):
    """Log-odds of a found cause by the strength of its rule, and what moves them."""

    strong: float = 3.2
    medium: float = 1.5
    weak: float = 0.0
    supported: float = 0.9
    not_supported: float = -0.2
    weakened: float = -1.6
    applies_unknown: float = -0.5
    none_unknown: float = -0.2
    more_signs: float = 0.3


WEIGHTS = Weights()


def probability(log_odds: float) -> float:
    """Log-odds to probability, kept away from certainty."""
    return min(0.99, max(0.01, 1 / (1 + math.exp(-log_odds))))
