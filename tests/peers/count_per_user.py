"""Counts the records of a topic per user with Quix Streams, several times, each time as a new application with an empty
store. Prints records per second: the median of all passes but the first.

    count_per_user.py TOPIC RECORDS KEYS PASSES GUARANTEE FOLDER

A pass is timed from its first record until the application has stopped, which stores and commits everything. Then the
stores are opened again and every count in them checked. KAFKA_BOOTSTRAP names the broker.
"""

import os
import statistics
import sys
import time
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition
from quixstreams import Application
from quixstreams.state.rocksdb import RocksDBStorePartition

PARTITIONS = 4
BOOTSTRAP = os.environ["KAFKA_BOOTSTRAP"]


class Pass:
    """One application, from its start to its end."""

    def __init__(self, topic, records, guarantee, group, folder):
        self.topic, self.records, self.group, self.folder = topic, records, group, folder
        self.handled, self.began = 0, None
        self.app = Application(
            broker_address=BOOTSTRAP,
            consumer_group=group,
            auto_offset_reset="earliest",
            processing_guarantee=guarantee,
            commit_interval=1.0,
            state_dir=folder,
            loglevel="WARNING",
            producer_extra_config={"acks": "all", "linger.ms": 100},
            consumer_extra_config={"fetch.queue.backoff.ms": 10},
        )
        payments = self.app.topic(topic, key_deserializer="str", value_deserializer="json")
        self.app.dataframe(payments).update(self.count, stateful=True)

    def count(self, payment, state):
        if self.began is None:
            self.began = time.perf_counter()
        state.set("count", state.get("count", 0) + 1)
        self.handled += 1
        if self.handled == self.records:
            self.app.stop()

    def run(self):
        self.app.run()
        seconds = time.perf_counter() - self.began
        assert self.handled == self.records, f"{self.handled} records were handled"
        return self.records / seconds

    def check(self, keys):
        committed = Consumer({"bootstrap.servers": BOOTSTRAP, "group.id": self.group})
        offsets = committed.committed([TopicPartition(self.topic, partition) for partition in range(PARTITIONS)], 30)
        committed.close()
        assert sum(offset.offset for offset in offsets) == self.records, offsets

        counts = dict.fromkeys((f"u-{number}" for number in range(keys)), 0)
        stores = list(self.folder.rglob("CURRENT"))
        assert len(stores) == PARTITIONS, stores
        for store in stores:
            partition = RocksDBStorePartition(str(store.parent))
            with partition.begin() as rows:
                for user in counts:
                    counts[user] += rows.as_state(prefix=user).get("count", 0)
            partition.close()
        wrong = [(user, count) for user, count in counts.items() if count != self.records // keys]
        assert not wrong, f"{len(wrong)} wrong counts, the first {wrong[0]}"


def main():
    topic, records, keys, passes, guarantee, folder = sys.argv[1:]
    rates = []
    for number in range(int(passes) + 1):
        group = f"quix-{os.getpid()}-{number}"
        one = Pass(topic, int(records), guarantee, group, Path(folder) / group)
        rate = one.run()
        one.check(int(keys))
        print(f"Quix Streams, {guarantee}, pass {number}: {rate:.0f}/s", file=sys.stderr)
        rates.append(rate)
    print(f"{statistics.median_high(rates[1:]):.1f}")


main()
