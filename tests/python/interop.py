"""What tests/booblik_conformance/python.rs has the published client do: interop.py blocking|asyncio PART HOST:PORT"""

import asyncio
import sys
import time

import booblik
from booblik import AckPolicy
from both import connect, done, producer

PAYLOADS = [bytes(range(256)), b"\0", "grüße".encode(), b"\xff" * 5000, b"last"]

# The same keys as in the golden vectors, in their order.
KEYS = [
    b"",
    b"\x00",
    b"\x7f",
    b"\x80",
    b"\xff",
    b"user-1",
    b"user-2",
    "заказ-7".encode(),
    "order-🚀".encode(),
    bytes(range(256)),
    b"customer/" + b"9" * 200,
]


def say(*words):
    print(*words, flush=True)


async def write(flavour, connection):
    await done(connection.produce("t", 0, PAYLOADS))
    writer = producer(flavour, connection, ack=AckPolicy.FORCED)
    futures = [await done(writer.send("t", 0, f"batched {number}".encode())) for number in range(500)]
    await done(writer.flush())
    offsets = [future.result() for future in futures]
    await done(writer.close())
    assert offsets == list(range(len(PAYLOADS), len(PAYLOADS) + 500)), offsets
    say("wrote", len(PAYLOADS) + len(offsets))


async def read(_, connection):
    end = (await done(connection.metadata("t")))["t"][0].high_watermark
    consumer = connection.consumer("t", 0, 0, max_bytes=8192)
    while consumer.position < end:
        for record in await done(consumer.poll()):
            say(record.hex())
    assert consumer.lag == 0


async def keys(_, connection):
    topic = await done(connection.topic("t"))
    for key in KEYS:
        result = await done(topic.send(b"to " + key, key=key))
        partition = topic.partition_for(key)
        stored = await done(connection.fetch("t", partition, result.base_offset))
        assert stored.records == [b"to " + key], (key, stored)
        say(key.hex(), partition)


async def wait(_, connection):
    assert (await done(connection.fetch("t", 2, 0, max_wait_millis=50))).records == []
    say("waiting")
    since = time.monotonic()
    fetched = await done(connection.fetch("t", 2, 0, max_wait_millis=25_000, min_bytes=1))
    say(fetched.records[0].decode())
    say("in time" if time.monotonic() - since < 20 else "too late")


async def refused(call):
    try:
        await done(call())
    except booblik.BrokerError as refusal:
        say(refusal.code.name)
    else:
        say("not refused")


async def policies(_, connection):
    for policy in (AckPolicy.WRITTEN, AckPolicy.FORCED):
        say(policy.name.lower(), *await done(connection.produce("t", 1, [b"x"], policy)))
    say("none", await done(connection.produce("t", 1, [b"x"], AckPolicy.NONE)))
    # The broker reads the fetch after the record.
    await done(connection.fetch("t", 1, 2, max_wait_millis=20_000, min_bytes=1))
    say("arrived", (await done(connection.metadata("t")))["t"][1].high_watermark)
    await refused(lambda: connection.metadata("nowhere"))
    await refused(lambda: connection.produce("t", 8, [b"x"]))
    await refused(lambda: connection.fetch("t", 1, 1000))
    await refused(lambda: connection.produce("t", 1, [b""]))
    say("still usable", (await done(connection.metadata("t")))["t"][1].high_watermark)


PARTS = {"write": write, "read": read, "keys": keys, "wait": wait, "policies": policies}


async def main(flavour, part, address):
    connection = await connect(flavour, address)
    await PARTS[part](flavour, connection)
    await done(connection.close())


asyncio.run(main(*sys.argv[1:]))
