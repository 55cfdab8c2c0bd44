"""A real Kafka broker and a real Spark cluster on this machine.

::

    with Lab(LabSpec(workers=1, size=WorkerSize(cores=4))) as lab:
        lab.broker.create_topic("clicks", partitions=4)
        lab.broker.bootstrap, lab.cluster.url, lab.cluster.driver_conf()
"""
