"""moto server whose clock a test moves.

    moto_clock.py CLOCK ARGUMENTS...

Some of what moto works out anew at every call is remembered, so that the tests take seconds.

CLOCK is a file of eight bytes, little-endian: by how many nanoseconds moto is to be ahead of the machine's clock. All of
moto asks moto.core.utils for the time, so that is what is replaced.
"""

import datetime
import functools
import mmap
import struct
import sys
import time

from moto.core import utils

with open(sys.argv[1], "r+b") as f:
    memory = mmap.mmap(f.fileno(), 8)


def now():
    return time.time() + struct.unpack_from("<q", memory)[0] / 1e9


def utcnow():
    return datetime.datetime.fromtimestamp(now(), datetime.timezone.utc).replace(tzinfo=None)


unix_time = utils.unix_time
utils.utcnow = utcnow
utils.unix_time = lambda dt=None: unix_time(dt) if dt else now()
utils.unix_time_millis = lambda dt=None: unix_time(dt) * 1000.0 if dt else now() * 1000.0

from moto.sqs import models  # noqa: E402  imported when the clock is in place


def is_retained(self, queue_name, message):
    """As moto's, which counts the whole queue three times for each message that it delivers."""
    retention = int(self.get_queue(queue_name).message_retention_period)
    return retention + message.sent_timestamp / 1000 > now()


assert hasattr(models.SQSBackend, "is_message_valid_based_on_retention_period")
models.SQSBackend.is_message_valid_based_on_retention_period = is_retained

from jsonpath_ng import ext  # noqa: E402
from moto import backends  # noqa: E402

ext.parse = functools.cache(ext.parse)
modules = tuple(backends.list_of_moto_modules())
backends.list_of_moto_modules = lambda: iter(modules)

from moto.server import main  # noqa: E402

main(sys.argv[2:])
