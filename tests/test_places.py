"""Places: an array library and one of its devices."""

from gpuml._arrays.places import HOST, Place


class Device:
    """As CuPy's: equal to others, without a hash."""

    def __init__(self, number):
        self.number = number

    def __eq__(self, other):
        return self.number == other.number

    __hash__ = None

    def __repr__(self):
        return f"<device {self.number}>"


def test_places_are_told_apart_whatever_their_devices_are():
    places = [Place(HOST.xp, Device(number)) for number in (0, 1, 0)]
    assert len(set(places)) == 2
    assert places[0] == places[2] != places[1]
