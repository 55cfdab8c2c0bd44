"""The driver's JVM: the only files that touch ``spark._jvm``, ``_jsc`` and ``_jsq``.

:mod:`~rheostat.jvm.reading` and :mod:`~rheostat.jvm.kafka` look, :mod:`~rheostat.jvm.levers` acts. What is asked of
the JVM comes back in few round trips, as text that :mod:`~rheostat.jvm.texts` reads.
"""
