"""The blocking and the asyncio client of booblik behind the same calls, which are to be awaited."""

import inspect

import booblik
from booblik import aio


async def done(value):
    """What a call of either client returned."""
    return await value if inspect.isawaitable(value) else value


async def connect(flavour, address):
    kind = {"blocking": booblik.Connection, "asyncio": aio.Connection}[flavour]
    return await done(kind.connect(address))


def producer(flavour, connection, **config):
    module = {"blocking": booblik, "asyncio": aio}[flavour]
    return module.Producer(connection, module.ProducerConfig(**config))
