"""Turns orders into a feed of the large ones, under the key of their customer.

    {"order": "A-17", "customer": "c9", "items": [{"price": 12900, "quantity": 2}]}

becomes {"order": "A-17", "customer": "c9", "total": 25800}. The config says what is large: {"minimum": 10000}, in cents.
"""

import json

from componentize_py_types import Err
from wit_world import exports
from wit_world.imports import log
from wit_world.imports.types import CommitPolicy, Context, EndReason, Failure_Reject, Message, Output

# The host makes a new instance of the whole component for each partition and generation: the state of the module is that of the instance.
minimum = 0
large = 0


class Transform(exports.Transform):
    def init(self, ctx: Context) -> CommitPolicy:
        global minimum
        config = json.loads(ctx.config)
        if not isinstance(config, dict) or not isinstance(config.get("minimum"), int):
            raise Err('`config` needs a minimum in cents, such as { minimum: 10000 }')
        minimum = config["minimum"]
        return CommitPolicy.ANY_TIME

    def process(self, m: Message) -> list[Output]:
        global large
        if m.value is None:
            # The order was deleted: there is nothing to tell.
            return []
        try:
            order = json.loads(m.value)
            total = sum(item["price"] * item["quantity"] for item in order["items"])
            name, customer = order["order"], order["customer"]
        except (ValueError, KeyError, TypeError) as error:
            # An exception that leaves this function kills the instance; this one is told with the record's coordinates.
            raise Err(Failure_Reject(f"not an order: {error!r}"))
        if total < minimum:
            return []
        large += 1
        value = json.dumps({"order": name, "customer": customer, "total": total})
        return [Output(None, None, None, str(customer).encode(), value.encode(), m.headers)]

    def generation_ended(self, reason: EndReason) -> list[Output]:
        log.write(log.Level.INFO, f"{large} large orders")
        return []
