"""Mergeable accumulators in flat memory: a distribution with its places, and sums by the minute.

Values are integers in millionths, so that sums are exact and merging gives the same in any grouping.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

SCALE = 1_000_000
"""Millionths: how values are held."""

KEPT_MINUTES = 1440
"""How many buckets a trend has at most; longer times get wider buckets."""


_KEY_BITS = 44


class Mark(NamedTuple):
    """A value and the line that shows it."""

    value: int
    line: int
    text: str = ""


KEPT_VALUES = 256
"""How many different values a sketch holds exactly; beyond, they go into bins."""


def bin_of(value: int) -> int:
    """The bin of a value: its highest eight bits, so a bin is at most 1/128 wide relative to its values.

    >>> bin_of(200), bin_of(83_900_000) == bin_of(84_000_000), bin_of(83_900_000) == bin_of(85_000_000)
    (200, True, False)
    """
    shift = value.bit_length() - 8
    return value if shift <= 0 else shift * 128 + (value >> shift)


def middle_of(number: int) -> int:
    """The value in the middle of a bin: at most 0.4 % from any value in it.

    >>> middle_of(bin_of(200)), abs(middle_of(bin_of(83_900_000)) - 83_900_000) < 330_000
    (200, True)
    """
    shift = number // 128 - 1
    if shift <= 0:
        return number
    return ((number - shift * 128) << shift) + (1 << shift) // 2


class Sketch:
    """Count, sum, first, last, lowest and highest (each with its line), and counts for quantiles.

    Counts are kept by value while there are few different ones, and by bin from then on. The order of adding and
    merging does not matter.
    """

    __slots__ = ("binned", "count", "counts", "first", "high", "last", "low", "total")

    def __init__(self, *, binned: bool = False) -> None:
        self.count = 0
        self.total = 0
        self.first: Mark | None = None
        self.last: Mark | None = None
        self.low: Mark | None = None
        self.high: Mark | None = None
        self.binned = binned
        self.counts: Counter[int] = Counter()

    def extend(self, values: Sequence[int], lines: Sequence[int]) -> None:
        """Add values (millionths, not negative), each with its line; lines rise."""
        if not values:
            return
        self.count += len(values)
        self.total += sum(values)
        lowest, highest = min(values), max(values)
        if self.first is None or lines[0] < self.first.line:
            self.first = Mark(values[0], lines[0])
        if self.last is None or lines[-1] > self.last.line:
            self.last = Mark(values[-1], lines[-1])
        if self.low is None or lowest <= self.low.value:
            self.low = _first_of(self.low, Mark(lowest, lines[values.index(lowest)]))
        if self.high is None or highest >= self.high.value:
            self.high = _first_of(self.high, Mark(highest, lines[values.index(highest)]))
        self.counts.update(map(bin_of, values) if self.binned else values)
        self._bin_if_many()

    def _count(self, more: Mapping[int, int]) -> None:
        counts = self.counts
        for key, count in more.items():
            counts[key] = counts.get(key, 0) + count

    def _bin_if_many(self) -> None:
        if not self.binned and len(self.counts) > KEPT_VALUES:
            self.counts, self.binned = _binned(self.counts), True

    def merge(self, other: "Sketch") -> "Sketch":
        """Both as one."""
        merged = Sketch(binned=self.binned)
        merged.counts = self.counts.copy()
        merged.count, merged.total = self.count, self.total
        merged.first, merged.last, merged.low, merged.high = self.first, self.last, self.low, self.high
        merged.absorb(other)
        return merged

    def absorb(self, other: "Sketch") -> None:
        """Become both as one."""
        self.count += other.count
        self.total += other.total
        self.first = _best(self.first, other.first, _early)
        self.last = _best(self.last, other.last, _late)
        self.low = _best(self.low, other.low, _rising)
        self.high = _best(self.high, other.high, _falling)
        if other.binned and not self.binned:
            self.counts, self.binned = _binned(self.counts), True
        self._count(_binned(other.counts) if self.binned and not other.binned else other.counts)
        self._bin_if_many()

    def quantile(self, share: float) -> float:
        """The value at this share of the sorted values (nearest rank); within 0.4 % once there are bins."""
        wanted = max(1, -(-int(share * 1000) * self.count // 1000))
        for key in sorted(self.counts):
            wanted -= self.counts[key]
            if wanted <= 0:
                return (middle_of(key) if self.binned else key) / SCALE
        return 0.0

    @property
    def mean(self) -> float:
        return self.total / self.count / SCALE if self.count else 0.0

    def placed(self, places: Mapping[int, tuple[int, str]]) -> "Sketch":
        """The same with byte offsets in place of lines replaced by the lines and texts they stand for."""
        placed = Sketch()
        placed.count, placed.total = self.count, self.total
        placed.counts, placed.binned = self.counts, self.binned
        placed.first, placed.last = _placed(self.first, places), _placed(self.last, places)
        placed.low, placed.high = _placed(self.low, places), _placed(self.high, places)
        return placed

    def marks(self) -> list[Mark]:
        return [mark for mark in (self.first, self.last, self.low, self.high) if mark is not None]


class Minutes:
    """Count and sum by the minute; when there are too many, buckets double in width until they fit."""

    __slots__ = ("buckets", "width")

    def __init__(self) -> None:
        self.width = 1
        self.buckets: dict[int, tuple[int, int]] = {}

    def add(self, minute: int, count: int, total: int) -> None:
        """Add values (their count and sum in millionths) of a minute since the epoch."""
        key = minute // self.width
        before = self.buckets.get(key, (0, 0))
        self.buckets[key] = (before[0] + count, before[1] + total)
        while len(self.buckets) > KEPT_MINUTES:
            self._widen()

    def _widen(self) -> None:
        old, self.buckets = self.buckets, {}
        self.width *= 2
        for key, (count, total) in old.items():
            before = self.buckets.get(key // 2, (0, 0))
            self.buckets[key // 2] = (before[0] + count, before[1] + total)

    def merge(self, other: "Minutes") -> "Minutes":
        merged = Minutes()
        merged.width, merged.buckets = self.width, dict(self.buckets)
        while merged.width < other.width:
            merged._widen()
        buckets, ratio = merged.buckets, merged.width // other.width
        for minute, (count, total) in other.buckets.items():
            key = minute // ratio
            before = buckets.get(key)
            buckets[key] = (count, total) if before is None else (before[0] + count, before[1] + total)
        # Once at the end: buckets only become more, so what would have been widened on the way is so now.
        while len(merged.buckets) > KEPT_MINUTES:
            merged._widen()
        return merged

    def means(self) -> list[tuple[int, float]]:
        """(first minute since the epoch, mean) of each bucket, in time."""
        return [
            (key * self.width, total / count / SCALE) for key, (count, total) in sorted(self.buckets.items())
        ]


def extend_arrays(np: Any, sketches: Sequence[Sketch], begins: Any, values: Any, lines: Any) -> None:
    """`Sketch.extend` of many at once. The values of ``sketches[i]`` stand from ``begins[i]`` to the next beginning.

    values, lines: int64 arrays of numpy; values below 2**44, none of the stretches empty, sums below 2**63.
    """
    index = None
    if len(sketches) == 1:
        at_low, at_high = values.argmin(keepdims=True), values.argmax(keepdims=True)
    else:
        index = np.zeros(len(values), dtype=np.int64)
        index[begins[1:]] = 1
        index = np.cumsum(index)
        at_low = _first_places(np, values == np.minimum.reduceat(values, begins)[index], index)
        at_high = _first_places(np, values == np.maximum.reduceat(values, begins)[index], index)
    kinds, counts, edges, binned = _counted(np, sketches, index, values)
    ends = [*begins[1:].tolist(), len(values)]
    last_values, last_lines = (column[np.array(ends) - 1].tolist() for column in (values, lines))
    columns = (
        values[begins], lines[begins], values[at_low], lines[at_low], values[at_high], lines[at_high],
        np.add.reduceat(values, begins),
    )  # fmt: skip
    numbers = zip(*(column.tolist() for column in columns), strict=True)
    for number, (sketch, (first, first_at, low, low_at, high, high_at, total)) in enumerate(
        zip(sketches, numbers, strict=True)
    ):
        fresh = sketch.count == 0
        one = sketch if fresh else Sketch()
        one.binned = binned[number]
        one.count, one.total = ends[number] - int(begins[number]), total
        one.first, one.last = Mark(first, first_at), Mark(last_values[number], last_lines[number])
        one.low, one.high = Mark(low, low_at), Mark(high, high_at)
        start, stop = edges[number], edges[number + 1]
        one.counts = Counter(dict(zip(kinds[start:stop], counts[start:stop], strict=True)))
        if not fresh:
            sketch.absorb(one)


def _counted(
    np: Any, sketches: Sequence[Sketch], index: Any, values: Any
) -> tuple[list[int], list[int], list[int], list[bool]]:
    """Values or bins with their counts, sketch by sketch, where each one's begin, and which are in bins.

    index: the sketch of each value; None where there is one sketch.
    """
    binned = np.array([sketch.binned for sketch in sketches])
    while True:
        keys = values
        if binned.any():
            keys = _bins(np, values)
            if not binned.all():
                keys = np.where(binned[index], keys, values)
        kinds, counts = np.unique(keys if index is None else index << _KEY_BITS | keys, return_counts=True)
        edges = np.searchsorted(kinds >> _KEY_BITS, np.arange(len(sketches) + 1))
        many = ~binned & (np.diff(edges) > KEPT_VALUES)
        if not many.any():
            break
        binned |= many
    if index is not None:
        kinds &= (1 << _KEY_BITS) - 1
    return kinds.tolist(), counts.tolist(), edges.tolist(), binned.tolist()


def _first_places(np: Any, where: Any, index: Any) -> Any:
    """The first place of each stretch at which ``where`` holds; it holds somewhere in each."""
    places = np.flatnonzero(where)
    stretches = index[places]
    return places[np.searchsorted(stretches, np.arange(int(index[-1]) + 1))]


def _bins(np: Any, values: Any) -> Any:
    """`bin_of` for an array; frexp is exact below 2**53."""
    shift = np.maximum(np.frexp(values.astype(np.float64))[1] - 8, 0)
    return shift * 128 + (values >> shift)


def _binned(counts: Counter[int]) -> Counter[int]:
    binned: Counter[int] = Counter()
    get = binned.get
    for value, count in counts.items():
        # As `bin_of`; a call for each value would take as long again.
        shift = value.bit_length() - 8
        key = value if shift <= 0 else shift * 128 + (value >> shift)
        binned[key] = get(key, 0) + count
    return binned


def _best(a: Mark | None, b: Mark | None, key: Callable[[Mark], tuple[int, ...]]) -> Mark | None:
    return min((mark for mark in (a, b) if mark is not None), key=key, default=None)


def _first_of(old: Mark | None, new: Mark) -> Mark:
    return old if old is not None and old.value == new.value and old.line < new.line else new


def _early(mark: Mark) -> tuple[int, ...]:
    return (mark.line,)


def _late(mark: Mark) -> tuple[int, ...]:
    return (-mark.line,)


def _rising(mark: Mark) -> tuple[int, int]:
    return mark.value, mark.line


def _falling(mark: Mark) -> tuple[int, int]:
    return -mark.value, mark.line


def _placed(mark: Mark | None, places: Mapping[int, tuple[int, str]]) -> Mark | None:
    return None if mark is None else Mark(mark.value, *places[mark.line])
