"""Version ranges against what is known of a version: one release, an interval, or nothing."""

from functools import lru_cache

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from diagnoser.inference.truth import Truth


@lru_cache(maxsize=1024)
def parse(text: str) -> Version | None:
    """A version as software prints it; build and local parts are dropped, None where it is no version."""
    cleaned = text.strip().lstrip("v").split("+")[0]
    try:
        return Version(cleaned)
    except InvalidVersion:
        head = cleaned.split("-")[0]
        try:
            return Version(head)
        except InvalidVersion:
            return None


@lru_cache(maxsize=1024)
def specifier(text: str) -> SpecifierSet | None:
    """A range such as ">=0.5.5,<0.5.11"; None where it is no range."""
    try:
        return SpecifierSet(text, prereleases=True)
    except InvalidSpecifier:
        return None


def within(text: str, spec: str) -> Truth:
    """Whether one version lies in a range."""
    version, wanted = parse(text), specifier(spec)
    if version is None or wanted is None:
        return Truth.UNKNOWN
    if version.is_devrelease or version.is_prerelease:
        # A development build of 0.21.1 behaves like the release it leads to, not like the one before it.
        version = Version(version.base_version)
    return Truth.YES if wanted.contains(version) else Truth.NO


def interval_within(low: Version | None, high: Version | None, spec: str) -> Truth:
    """Whether every, no, or some version between two releases (inclusive, None: open) lies in a range."""
    wanted = specifier(spec)
    if wanted is None:
        return Truth.UNKNOWN
    floor, ceiling = _bounds(wanted)
    if high is not None and floor is not None and high < floor:
        return Truth.NO
    if low is not None and ceiling is not None and low > ceiling:
        return Truth.NO
    if low is None or high is None:
        return Truth.UNKNOWN
    ends = [wanted.contains(low), wanted.contains(high)]
    if all(ends):
        return Truth.YES
    return Truth.NO if low == high else Truth.UNKNOWN


def outside(after: Version | None, before: Version | None, spec: str) -> bool:
    """Whether no version newer than one release and older than another (None: open) lies in a range."""
    wanted = specifier(spec)
    if wanted is None:
        return False
    floor, ceiling = _bounds(wanted)
    too_new = after is not None and ceiling is not None and after >= ceiling
    return too_new or (before is not None and floor is not None and before <= floor)


def _bounds(wanted: SpecifierSet) -> tuple[Version | None, Version | None]:
    """The lowest and highest version a range may hold, as far as >=, >, <=, < and == say."""
    floor: Version | None = None
    ceiling: Version | None = None
    for part in wanted:
        version = parse(part.version.removesuffix(".*"))
        if version is None:
            continue
        if part.version.endswith(".*"):
            if part.operator == "==":
                *head, last = version.release
                beyond = Version(".".join(map(str, [*head, last + 1])))
                floor = version if floor is None else max(floor, version)
                ceiling = beyond if ceiling is None else min(ceiling, beyond)
            continue
        if part.operator in (">=", ">", "==", "~="):
            floor = version if floor is None else max(floor, version)
        if part.operator in ("<=", "<", "=="):
            ceiling = version if ceiling is None else min(ceiling, version)
    return floor, ceiling
