"""How many of a limited number of places one caller may hold, so that others find some free."""

_FOR_EACH_FREE = 4


def share(limit: int, used: int) -> int:
    """How many of `limit` places one caller may hold while `used` of them are taken.

    Four for each that is free: an only caller has four fifths of all, each of two has four ninths,
    and of four or less whoever comes first has all. What is over stays free for others: nobody can
    be sent away from a place again, and a request may hold one for a minute.
    """
    return _FOR_EACH_FREE * (limit - used)
