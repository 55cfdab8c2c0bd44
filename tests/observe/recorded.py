"""Texts as a real Spark 4.2.0 and a real Kafka 4.3.1 gave them."""

RATE_ID = "3a0666b5-8509-44af-b681-32a95b16346e"
SLOW_ID = "2a3e93ff-757c-47a8-ba4e-5a0f3ce09897"

ACTIVE_QUERIES = (
    "{2a3e93ff-757c-47a8-ba4e-5a0f3ce09897=Streaming Query slowq [id = 2a3e93ff-757c-47a8-ba4e-5a0f3ce09897, "
    "runId = 4b57f9e8-99ea-484d-a404-079d914bf3e9] [state = INITIALIZING], 3a0666b5-8509-44af-b681-32a95b16346e="
    "Streaming Query [id = 3a0666b5-8509-44af-b681-32a95b16346e, runId = 1b3cc3f9-7a58-4c1c-8c8a-28bfbdcb8724] "
    "[state = ACTIVE]}"
)

RATE_PROGRESS = (
    '{"id":"99e465cc-6c86-4005-b5b9-2449b89d775a","runId":"59fd18da-8653-48ff-a2eb-a14d834d9835","name":null,'
    '"timestamp":"2026-11-28T02:41:48.831Z","batchId":1,"batchDuration":418,"numInputRows":20,'
    '"inputRowsPerSecond":10.0,"processedRowsPerSecond":47.8,"durationMs":{"addBatch":224,"commitOffsets":84,'
    '"getBatch":0,"latestOffset":0,"queryPlanning":33,"triggerExecution":418,"walCommit":74},"stateOperators":[],'
    '"sources":[{"description":"RateStreamV2[rowsPerSecond=5, rampUpTimeSeconds=0, numPartitions=default",'
    '"startOffset":0,"endOffset":2,"latestOffset":2,"numInputRows":20,"inputRowsPerSecond":10.0,'
    '"processedRowsPerSecond":47.8}],"sink":{"description":"NoopTable","numOutputRows":20}}'
)

FILE_PROGRESS = (
    '{"id":"cb0cc856-4def-494b-8036-ca29a6233ecf","runId":"f63d442c-2719-409b-ad23-28ffe511c197","name":null,'
    '"timestamp":"2026-11-28T02:41:47.105Z","batchId":0,"batchDuration":1692,"numInputRows":2,'
    '"inputRowsPerSecond":0.0,"processedRowsPerSecond":1.2,"durationMs":{"addBatch":1073,"commitOffsets":70,'
    '"getBatch":146,"latestOffset":89,"queryPlanning":213,"triggerExecution":1687,"walCommit":81},'
    '"stateOperators":[],"sources":[{"description":"FileStreamSource[file:/tmp/in]","startOffset":null,'
    '"endOffset":{"logOffset":0},"latestOffset":null,"numInputRows":2,"inputRowsPerSecond":0.0,'
    '"processedRowsPerSecond":1.2}],"sink":{"description":"NoopTable","numOutputRows":2}}'
)

LISTED = (
    "{clicks.a-b-9=ListOffsetsResultInfo(offset=10, timestamp=-1, leaderEpoch=Optional[0]), "
    "clicks.a-b-10=ListOffsetsResultInfo(offset=11, timestamp=-1, leaderEpoch=Optional[0]), "
    "other-0=ListOffsetsResultInfo(offset=0, timestamp=-1, leaderEpoch=Optional.empty)}"
)

DESCRIBED = (
    "{clicks.a-b=(name=clicks.a-b, internal=false, partitions=(partition=0, leader=127.0.0.1:42751 (id: 1 rack: null), "
    "replicas=127.0.0.1:42751 (id: 1 rack: null), isr=127.0.0.1:42751 (id: 1 rack: null), elr=, lastKnownElr=),"
    "(partition=1, leader=127.0.0.1:42751 (id: 1 rack: null), replicas=127.0.0.1:42751 (id: 1 rack: null), "
    "isr=127.0.0.1:42751 (id: 1 rack: null), elr=, lastKnownElr=), authorizedOperations=null), "
    "a=(name=a, internal=false, partitions=(partition=0, leader=127.0.0.1:42751 (id: 1 rack: null), "
    "replicas=127.0.0.1:42751 (id: 1 rack: null), isr=, elr=, lastKnownElr=), authorizedOperations=null)}"
)

CONFIGS = (
    "{ConfigResource(type=TOPIC, name='clicks.a-b')=Config(entries=[ConfigEntry(name=compression.type, "
    "value=producer, source=DEFAULT_CONFIG, isSensitive=false, isReadOnly=false, synonyms=[], type=STRING, "
    "documentation=null), ConfigEntry(name=cleanup.policy, value=delete, source=DEFAULT_CONFIG, isSensitive=false, "
    "isReadOnly=false, synonyms=[], type=LIST, documentation=null)]), ConfigResource(type=TOPIC, name='users')="
    "Config(entries=[ConfigEntry(name=cleanup.policy, value=compact,delete, source=DYNAMIC_TOPIC_CONFIG, "
    "isSensitive=false, isReadOnly=false, synonyms=[], type=LIST, documentation=null)])}"
)

FAILURE = (
    "[STREAM_FAILED] Query [id = c6891394-43d4-4496-86d1-519155141e5a, runId = d7e3b210-7493-4afe-bc6e-8c627eafe99b] "
    "terminated with exception: [FOREACH_BATCH_USER_FUNCTION_ERROR] An error occurred in the user provided function "
    "in foreach batch sink. Reason: An exception was raised by the Python Proxy. Return Message: Traceback (most "
    'recent call last):\n  File "/x/py4j/clientserver.py", line 644, in _call_proxy\n'
    "    return_value = getattr(self.pool[obj_id], method)(*params)\n"
    "                   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
    "ValueError: boom\n SQLSTATE: 39000 SQLSTATE: XXKST\n"
    "=== Streaming Query ===\nIdentifier: [id = c6891394-43d4-4496-86d1-519155141e5a]\nLogical Plan: secret\n"
)

EXECUTOR = {
    "id": "2",
    "hostPort": "10.1.2.3:38497",
    "isActive": True,
    "totalCores": 1,
    "maxTasks": 1,
    "activeTasks": 1,
    "failedTasks": 2,
    "completedTasks": 25,
    "totalTasks": 28,
    "totalDuration": 30166,
    "addTime": 1795834386046,
}

OFFSET_LOG = (
    'v1\n{"batchWatermarkMs":0,"batchTimestampMs":1795835720788,"conf":{"spark.sql.shuffle.partitions":"2"}}\n'
    '{"clicks.a-b":{"0":5,"1":6}}'
)
KAFKA_START = '\0v1\n{"clicks.a-b":{"0":1,"1":2}}'
COMMIT_LOG = 'v1\n{"nextBatchWatermarkMs":0}'
METADATA = '{"id":"2a3e93ff-757c-47a8-ba4e-5a0f3ce09897"}'
