"""The example for OpenTelemetry: real spans, of calls, requests and retries."""

import pytest
from examples.tracing import SpanHook
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from holdfast import AsyncClient, Client
from holdfast.errors import AuthenticationError
from holdfast.testing import ScriptedServer
from tests.support import HELLO_CID, TOKEN, config_for, pinned

RETRIES = {"attempts": 2, "base": 0.001}


@pytest.fixture
def spans():
    return InMemorySpanExporter()


@pytest.fixture
def tracer(spans):
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    yield provider.get_tracer("tests")
    provider.shutdown()


def test_a_store_that_is_tried_again_has_its_spans_below_that_of_the_application(spans, tracer):
    with ScriptedServer() as server:
        server.reply(503)
        server.reply(200, pinned(HELLO_CID))
        config = config_for(server, retries=RETRIES, on_event=SpanHook(tracer))
        with tracer.start_as_current_span("app"), Client.init(config) as client:
            client.store([1])
    first, second, call, app = spans.get_finished_spans()
    peer = server.url.removeprefix("http://")
    assert [span.name for span in (first, second, call)] == [f"store {peer}"] * 2 + ["store"]
    assert {span.parent.span_id for span in (first, second, call)} == {app.context.span_id}
    assert {span.context.trace_id for span in (first, second, call)} == {app.context.trace_id}
    assert [span.kind for span in (first, call)] == [SpanKind.CLIENT, SpanKind.INTERNAL]
    statuses = [span.attributes["http.response.status_code"] for span in (first, second)]
    assert statuses == [503, 200]
    codes = [span.status.status_code for span in (first, second, call)]
    assert codes == [StatusCode.ERROR, StatusCode.UNSET, StatusCode.UNSET]
    assert call.attributes["holdfast.cid"] == HELLO_CID
    for span in (first, second, call):
        assert app.start_time <= span.start_time <= span.end_time <= app.end_time
    assert call.start_time <= first.start_time
    assert first.end_time <= second.end_time <= call.end_time
    (retry,) = app.events
    assert retry.name == "holdfast.retry"
    assert retry.attributes["http.response.status_code"] == 503
    assert TOKEN not in "".join(span.to_json() for span in (first, second, call, app))


async def test_spans_of_an_awaited_call_that_fails(spans, tracer):
    with ScriptedServer() as server:
        server.reply(401)
        config = config_for(server, on_event=SpanHook(tracer))
        async with AsyncClient.init(config) as client:
            with tracer.start_as_current_span("app"), pytest.raises(AuthenticationError):
                await client.test_connection()
    request, call, app = spans.get_finished_spans()
    assert request.parent.span_id == call.parent.span_id == app.context.span_id
    assert (request.status.description, call.status.description) == (
        "HTTP error 401",
        "AuthenticationError",
    )
    assert call.attributes["error.type"] == "AuthenticationError"
