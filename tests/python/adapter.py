"""The published booblik client for the conformance kit: adapter.py blocking|asyncio VERB ARGUMENT…"""

import asyncio
import os
import sys

import booblik
from both import connect, done

POLICIES = {
    "none": booblik.AckPolicy.NONE,
    "written": booblik.AckPolicy.WRITTEN,
    "forced": booblik.AckPolicy.FORCED,
}


def say(key, value):
    print(f"{key}={value}")


def say_produced(result):
    if result is not None:
        say("baseOffset", result.base_offset)
        say("logEndOffset", result.log_end_offset)


async def metadata(connection, topic):
    for info in (await done(connection.metadata(topic)))[topic]:
        say("partition", f"{info.partition} {info.log_start_offset} {info.high_watermark}")


async def produce(connection, topic, partition, policy, records):
    records = [bytes.fromhex(record) for record in records.split(",")]
    say_produced(await done(connection.produce(topic, int(partition), records, POLICIES[policy])))


async def produce_keyed(connection, topic, key, record):
    topic, key = await done(connection.topic(topic)), bytes.fromhex(key)
    say("partition", topic.partition_for(key))
    say_produced(await done(topic.send(bytes.fromhex(record), key=key)))


async def fetch(connection, topic, partition, offset, max_bytes):
    fetched = await done(connection.fetch(topic, int(partition), int(offset), int(max_bytes)))
    say("highWatermark", fetched.high_watermark)
    if fetched.truncated and not fetched.records:
        say("recordExceedsMaxBytes", fetched.truncated_record_bytes)
    for record in fetched.records:
        say("record", record.hex())


VERBS = {"metadata": metadata, "produce": produce, "produce-keyed": produce_keyed, "fetch": fetch}


async def main(flavour, verb, *arguments):
    if verb == "capabilities":
        say("roles", "producer,consumer")
        say("name", f"python {flavour}")
        return
    connection = await connect(flavour, os.environ["BOOBLIK_BROKER"])
    try:
        await VERBS[verb](connection, *arguments)
    except booblik.BrokerError as refusal:
        say("error", refusal.code.name)
    finally:
        await done(connection.close())


asyncio.run(main(*sys.argv[1:]))
