"""Prompts of a given token length that no prefix cache has seen.

Every prompt begins with its own nonce: the caches of SGLang and vLLM match from the first token on, so nothing after
it can be found there. The same seed gives the same prompts, for both arms of a comparison.
"""

import hashlib
import random
from dataclasses import dataclass
from itertools import cycle, islice

from diagnoser.experiment.load.client import Client, RefusedError, UnusableError

# Words that the usual vocabularies hold as one token with the space before them.
_TEXT = (
    "time year people way day man thing woman life child world school state family student group country "
    "problem hand part place case week company system program question work government number night "
    "point home water room mother area money story fact month lot right study book eye job word business "
    "issue side kind head house service friend father power hour game line end member law car city "
    "community name president team minute idea body back parent face others level office door health "
    "person art war history party result change morning reason research girl guy moment air teacher "
    "force education"
)
_WORDS = tuple(_TEXT.split())
MAX_PROBES = 5
CLOSE = 0.01
"""Calibration stops when the server counts the wanted length within 1 %, or one token."""


@dataclass(frozen=True)
class Prompts:
    """A family of prompts: ``words`` words in random order after a nonce."""

    seed: str
    words: int

    def one(self, run: str, index: int) -> str:
        """The prompt of one request; another run, another prompt."""
        name = f"{self.seed}/{run}/{index}"
        nonce = hashlib.sha256(name.encode()).hexdigest()[:12]
        # The same words in another order: with any vocabulary the prompts are of one length in tokens, nearly.
        words = list(islice(cycle(_WORDS), self.words))
        random.Random(name).shuffle(words)
        return " ".join([nonce, *words])


@dataclass(frozen=True)
class Calibrated:
    """Prompts, and what the server counts for one of them; None where it gives no counts."""

    prompts: Prompts
    counted_tokens: int | None
    note: str = ""


FIRST_WORDS = 256
"""Length of the first prompt that is tried."""


async def calibrate(client: Client, seed: str, tokens: int) -> Calibrated:
    """Find the number of words that the server counts as ``tokens`` prompt tokens, template included.

    Asks the server itself (``usage.prompt_tokens``), at most `MAX_PROBES` times, for one output token each.
    Raises `UnusableError` when it does not answer.
    """
    seen: dict[int, int] = {}
    # A tokenizer may count every letter: a first guess of the whole length would not fit into the context.
    words = min(tokens, FIRST_WORDS)
    for probe in range(MAX_PROBES):
        prompts = Prompts(seed, words)
        counted = await _count(client, prompts, probe)
        if counted is None:
            note = f"prompt length not checked: the server counts no prompt tokens, {words} words were sent"
            return Calibrated(prompts, None, note)
        seen[words] = counted
        if abs(counted - tokens) <= max(1, CLOSE * tokens):
            return Calibrated(prompts, counted)
        wanted = _next(seen, words, tokens)
        if wanted in seen:
            break
        words = wanted
    best = min(seen, key=lambda count: abs(seen[count] - tokens))
    note = f"prompts have {seen[best]} tokens, not {tokens}"
    if best == 0:
        note += ": nonce and template alone are as long"
    return Calibrated(Prompts(seed, best), seen[best], note)


def _next(seen: dict[int, int], words: int, tokens: int) -> int:
    """Along the line through the last two points; through the first with one token a word at the start."""
    others = [count for count in seen if count != words]
    slope = (seen[words] - seen[others[-1]]) / (words - others[-1]) if others else 1.0
    if not others and (seen[words] > 2 * tokens or words < tokens):
        slope = seen[words] / max(words, 1)
    return max(0, words + round((tokens - seen[words]) / (slope if slope > 0 else 1.0)))


async def _count(client: Client, prompts: Prompts, probe: int) -> int | None:
    try:
        answer = await client.ask_leniently(prompts.one("calibration", probe), 1)
    except RefusedError as error:
        raise UnusableError(f"{client.url}: {error}") from error
    if answer.error and answer.prompt_tokens is None:
        raise UnusableError(f"{client.url}: the first request failed: {answer.error}")
    return answer.prompt_tokens
