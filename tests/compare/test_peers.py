"""Who is odd among peers."""

from diagnoser.compare.peers import deviations
from diagnoser.compare.subjects import Stated, Subject, Value
from diagnoser.facts.factbase import Sighting

DRIVER = Subject("packages", "driver", "driver", "version")
POWER = Subject("gpu", "gpu", "gpu 0", "power_limit_w")


def host(**values: Value) -> dict[Subject, Stated]:
    names = {"driver": DRIVER, "power": POWER}
    return {names[name]: Stated(value, Sighting("x", 1, 1, "")) for name, value in values.items()}


def test_the_odd_host_and_the_rule_that_makes_it_matter() -> None:
    peers = {f"gpu-{number}": host(driver="580.1", power=700) for number in range(7)}
    odd = {**peers, "gpu-7": host(driver="570.2", power=500)}
    found = deviations(odd, {"gpu-7": {"power-limit-lowered": ["gpu"]}})
    assert [(one.host, one.subject, one.usual, one.rules) for one in found] == [
        ("gpu-7", POWER, 700, ("power-limit-lowered",)),
        ("gpu-7", DRIVER, "580.1", ()),
    ]
    assert (found[0].agree, found[0].told) == (7, 8)


def test_two_hosts_or_no_majority_give_no_odd_one() -> None:
    assert deviations({"a": host(power=700), "b": host(power=500)}, {}) == []
    assert (
        deviations({name: host(power=watts) for name, watts in (("a", 700), ("b", 500), ("c", 600))}, {})
        == []
    )


def test_a_host_that_does_not_tell_is_not_odd() -> None:
    assert deviations({"a": host(power=700), "b": host(power=700), "c": host(power=700), "d": {}}, {}) == []
