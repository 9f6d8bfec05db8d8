"""Traces with OpenTelemetry: a span for each call of a client, and for each request that it sends.

`on_event` tells what happened, with the seconds that it took. `SpanHook` makes spans of that, below
the span that is current where the client is used. A retry is an event of that span::

    pip install . opentelemetry-sdk   # in a clone of Holdfast
    python examples/tracing.py        # prints the spans of a store and a retrieve

A service would give the hook a tracer of its own, with an exporter that sends spans to a collector.
An event has no secret: no header, no body, no query. Settings are those of
`ClientConfig.from_env()`.
"""

import time

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor
from opentelemetry.trace import SpanKind, Status, StatusCode, Tracer

from holdfast import Client, ClientConfig, Event

SPANS = {"call": SpanKind.INTERNAL, "request": SpanKind.CLIENT}


class SpanHook:
    """Makes spans with `tracer`: give it to a client as `on_event`."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    def __call__(self, event: Event) -> None:
        facts = attributes_of(event)
        if event.kind not in SPANS:  # it took no time: a retry, a gateway that lied, a resumption
            trace.get_current_span().add_event(f"holdfast.{event.kind}", facts)
            return
        end = time.time_ns()
        span = self._tracer.start_span(
            event.operation if event.kind == "call" else f"{event.operation} {event.peer}",
            kind=SPANS[event.kind],
            attributes=facts,
            start_time=end - int(event.elapsed * 1e9),
        )
        if event.error is not None or (event.status or 0) >= 400:
            span.set_status(Status(StatusCode.ERROR, event.error or f"HTTP error {event.status}"))
        span.end(end)


def attributes_of(event: Event) -> dict[str, str | int | float]:
    """The facts of an event, under the names of OpenTelemetry where it has them."""
    facts = {
        "holdfast.operation": event.operation,
        "holdfast.provider": event.provider,
        "holdfast.cid": event.cid,
        "holdfast.attempt": event.attempt,
        "holdfast.delay": event.delay,
        "holdfast.position": event.position,
        "server.address": event.peer,
        "http.response.status_code": event.status,
        "error.type": event.error,
    }
    return {name: value for name, value in facts.items() if value is not None}


def main() -> None:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter()))
    tracer = provider.get_tracer("examples.tracing")
    config = ClientConfig.from_env().with_options(on_event=SpanHook(tracer))
    with tracer.start_as_current_span("a report"), Client.init(config) as client:
        record = client.store({"tide": "high"})
        print(client.retrieve(record.cid))


if __name__ == "__main__":
    main()
