"""A real Kafka broker and a real Spark cluster on this machine.

::

    with Lab(LabSpec(workers=1, cores=4)) as lab:
        lab.broker.create_topic("clicks", partitions=4)
        lab.broker.bootstrap, lab.cluster.url, lab.cluster.driver_conf()

Names are loaded when first used: the guardian process imports this package and must stay tiny.
"""
