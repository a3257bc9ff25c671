"""The plugin that each language has, in Python: see tests/languages/README.md."""

from componentize_py_types import Err
from wit_world import exports
from wit_world.imports import log
from wit_world.imports.types import (
    CommitPolicy,
    Context,
    EndReason,
    Failure_Fatal,
    Failure_Reject,
    Failure_Retry,
    Header,
    Message,
    Output,
)

# One instance of the component is one generation of one partition, so the state of the module is that of the instance.
context: Context
records = 0

FAILURES = {"reject": Failure_Reject, "retry": Failure_Retry, "fatal": Failure_Fatal}


class Transform(exports.Transform):
    def init(self, ctx: Context) -> CommitPolicy:
        global context
        context = ctx
        word, argument = config()
        if word == "refuse":
            raise Err(argument)
        return CommitPolicy.GENERATION_END if word == "generation-end" else CommitPolicy.ANY_TIME

    def process(self, m: Message) -> list[Output]:
        global records
        records += 1
        word, argument = split(m.key)
        if word == "drop":
            return []
        if word == "fan":
            return [output(m, Header("copy", b"%d" % number)) for number in range(int(argument))]
        if word == "to":
            return [Output(argument, 2, 77, m.key, m.value, m.headers)]
        if word in FAILURES:
            raise Err(FAILURES[word](argument))
        if word == "trap":
            raise RuntimeError(argument)
        if word == "log":
            log.write(log.Level.WARN, argument)
        if word == "print":
            print(argument, flush=True)
        return [output(m)]

    def generation_ended(self, reason: EndReason) -> list[Output]:
        word, argument = config()
        if word == "end":
            raise Err(Failure_Reject(argument))
        place = f"{context.pipeline}/{context.transform} {context.topic}-{context.partition}"
        details = f"{place} generation {context.generation} records {records} reason {reason.name.lower()}"
        return [Output(None, None, None, b"details", details.encode(), [])]


def output(m: Message, *more: Header) -> Output:
    return Output(None, None, m.timestamp, m.key, m.value, [*m.headers, *more])


def split(key: bytes | None) -> tuple[str, str]:
    try:
        word, _, argument = (key or b"").decode().partition(":")
    except UnicodeDecodeError:
        return "", ""
    return word, argument


def config() -> tuple[str, str]:
    word, _, argument = context.config.strip('"').partition(":")
    return word, argument
