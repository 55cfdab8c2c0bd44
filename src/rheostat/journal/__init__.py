"""The journal: an append-only record of what was seen, decided and done.

One JSON object a line. A ``session`` record starts every file, with the settings and the states that a replay begins
from; ``decision`` records are on disk before anyone acts on them; ``outcome`` records refer to them.
"""
