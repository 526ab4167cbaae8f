"""How an effect is written, wherever one is told."""


def effect_text(effect: float, low: float, high: float) -> str:
    """A relative effect with its interval, 0.1 for ten percent.

    >>> effect_text(0.1, 0.08, 0.12)
    '+10.0% [+8.0%, +12.0%]'
    """
    return f"{effect:+.1%} [{low:+.1%}, {high:+.1%}]"
