"""The world → Observation: from inside the driver, from outside by REST, and scripted for tests.

Each way is a :class:`~rheostat.ports.Source`; import the one that is needed from its own module.
"""
