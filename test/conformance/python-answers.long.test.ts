// The Python client where a service answers what none should, a file is spoiled, or an app gives it something odd.

import { it } from 'vitest'
import { expectToRun } from './python-program.ts'

it.each([
  ['errors that are a number', '{"invalid_events":[0],"errors":5}', '["dropped 0"]'],
  ['an error whose event is a list', '{"invalid_events":[0],"errors":[{"event":[]}]}', '["dropped 0"]'],
  ['places that are no places', '{"invalid_events":[[],9,-1,true,"0"]}', 'all'],
  ['no places', '{"invalid_events":[]}', 'all'],
  ['JSON deeper than the stack', '["["*200000]', 'all'],
])('lives on after a 400 with %s', async (_, answer, gone) => {
  const text = answer.startsWith('["[') ? '"["*200000' : `'${answer}'`
  await expectToRun(`
dropped = Dropped()
service = Service(lambda number, body: (400, {}, ${text}) if number == 1 else STORED)
one = client(service, on_dropped=dropped)
one.track("dropped 0")
one.track("dropped 1")
assert one.flush(20)
one.track("later")
assert one.flush(20)
assert dropped == [("invalid", ["dropped 0"${gone === 'all' ? ', "dropped 1"' : ''}])], dropped
assert service.names()[2:] == [${gone === 'all' ? '' : '"dropped 1", '}"later"], service.names()
`)
})

it.each([
  ['Retry-After', 'that is no digit', '\u00b2'],
  ['Retry-After', 'of 5000 digits', '9'.repeat(5000)],
  ['X-RateLimit-Limit', 'that is no digit', '\u00b2'],
  ['RateLimit', 'of 5000 digits', `"minute";r=${'9'.repeat(5000)};t=1`],
  ['Date', 'that no calendar has', 'Sun, 99 Nov 20266 99:00:00 GMT'],
])('takes a header %s %s for none', async (header, _, value) => {
  await expectToRun(`
service = Service(lambda number, body: (429 if number == 1 else 202, {"${header}": '${value}'}, "{}"))
one = client(service)
one.track("event 0")
one.flush(20)
assert one._thread.is_alive() and one._failures == 1
assert one.flush(20)
one.track("event 1")
assert one.flush(20)
`)
})

it('obeys a Retry-After that is a date, by the clock of the answer', async () => {
  await expectToRun(`
headers = {"Retry-After": "Sun, 29 Nov 2026 23:00:20 GMT", "Date": "Sun, 29 Nov 2026 23:00:00 GMT"}
service = Service(lambda number, body: (503, headers, "{}"))
one = client(service)
one.track("event 0")
until("the refusal", lambda: one._failures == 1)
left_s = one._wait_until - time.monotonic()
assert 15 < left_s < 22, left_s
`)
})

it('gives up an answer that comes drop by drop', async () => {
  await expectToRun(`
sluice_client.ANSWER_TIMEOUT_S = 1
ended_early = threading.Event()
def drip(number, body):
    if number > 2:
        return STORED
    socket = service.handler.connection
    socket.sendall(b"HTTP/1.1 503 Slow\\r\\n")
    if number == 2:
        socket.sendall(b"Content-Length: 100000\\r\\n\\r\\n")
    try:
        for count in range(300):
            socket.sendall(b"X-%d: y\\r\\n" % count if number == 1 else b" ")
            time.sleep(0.1)
    except OSError:
        pass
service = Service(drip)
one = client(service)
one.track("event 0")
until("the first try is over", lambda: one._failures == 1)
one.flush(0)
until("the second try is over", lambda: one._failures == 2)
assert one.flush(20)
`)
})

it('drops what is unreadable in its folder, and reports it, and sends the rest', async () => {
  await expectToRun(`
def name(place):
    return "b%015d_10_x" % (int(time.time() * 1000) + place)
def batch(event):
    return {"key": "0de19b07-3a8f-4c3e-8d8c-aaaaaaaaaaa1", "body": json.dumps({"events": [{"name": event}]})}
def spoiled(event):
    return {"body": json.dumps({"client_report": {"dropped": {"expired": 4}}, "events": [{"name": event}]})}
place = folder(**{
    name(0): json.dumps([spoiled("without a key")]),
    name(1): "5",
    name(2): "[" * 100000,
    name(3): json.dumps([batch("sound"), spoiled("beside it"), 7]),
    name(4): json.dumps([{**batch("x"), "body": '{"events":5}'}]),
    name(5): json.dumps([{**batch("x"), "key": "\\n"}]),
    "wait": "9" * 400, "clock": "1e999", "dropped": "[]",
})
with open(os.path.join(place, name(6).replace("_", "-")), "wb") as file:
    file.write(b"\\xff\\xfe")
os.mkdir(os.path.join(place, name(7).replace("_", "-")))
dropped = Dropped()
service = Service()
one = client(service, folder=place, on_dropped=dropped)
assert one.flush(20)
assert service.names() == ["sound"], service.names()
told = [names for reason, names in dropped if reason == "invalid"]
assert len(told) == len(dropped), dropped
assert sorted(told) == [[], [], [], [], ["beside it"], ["without a key"], ["x"]], told
one.track("later")
assert one.flush(20)
assert service.bodies[-1]["client_report"]["dropped"] == {"invalid": 3, "expired": 8}, service.bodies[-1]
`)
})

it.each(['5', '[1]', '{"invalid":"many","refused":2,"closed":-1}', '{"invalid":', 'true'])(
  'takes a count of dropped events that is %s for what can be read of it',
  async (text) => {
    await expectToRun(`
place = folder(dropped='${text}', consent="denied")
dropped = Dropped()
service = Service()
one = client(service, folder=place, on_dropped=dropped)
one.track("while out")
one.opt_in()
one.track("event 0")
assert one.flush(20)
assert dropped == [("consent", ["while out"])]
assert service.bodies[0]["client_report"]["dropped"] == {${text.includes('refused') ? '"refused": 2, ' : ''}"consent": 1}
`)
  },
)

it('reports the events of a batch whose own report is odd', async () => {
  await expectToRun(`
body = json.dumps({"client_report": {"dropped": 5}, "events": [{"name": "event 0"}]})
batch = {"key": "0de19b07-3a8f-4c3e-8d8c-aaaaaaaaaaa1", "body": body}
place = folder(**{"b%015d_10_x" % (time.time() * 1000): json.dumps([batch])})
dropped = Dropped()
service = Service(lambda number, body: (400, {}, "{}"))
one = client(service, folder=place, on_dropped=dropped)
assert one.flush(20)
assert dropped == [("invalid", ["event 0"])], dropped
`)
})

it('sends what no option stops, and raises nothing for what an app may give it', async () => {
  await expectToRun(`
dropped = Dropped()
service = Service()
options = {"flush_interval_s": None, "max_queue_bytes": float("nan"), "context": "abc", "folder": "/proc/nope/x"}
one = client(service, on_dropped=dropped, **options)
one.track("event 0", context=None)
one.track("event 1", context="abc")
one.track("event 2", event_id=[1])
deep = []
for _ in range(5000):
    deep = [deep]
one.track("event 3", {"deep": deep})
assert one.flush(None)
assert service.names() == ["event 0", "event 2"], service.names()
assert dropped == [("invalid", ["event 1"]), ("invalid", ["event 3"])], [reason for reason, _ in dropped]
no_address = client("nowhere", on_dropped=dropped)
no_address.track("event 4")
assert not no_address.flush(20) and no_address._thread.is_alive()
no_address.close(0)
`)
})

it('sends or reports an event of any depth', async () => {
  await expectToRun(`
dropped = Dropped()
service = Service()
one = client(service, on_dropped=dropped)
def nested(levels):
    value = []
    for _ in range(levels):
        value = [value]
    return value
for levels in range(850, 1000, 3):
    one.track("event", {"deep": nested(levels)})
assert one.flush(20) and one._thread.is_alive()
assert len(service.names()) + len(dropped) == 50, (len(service.names()), len(dropped))
assert service.names() and dropped
`)
})

it('its sender outlives what nobody foresaw', async () => {
  await expectToRun(`
sluice_client.LOOK_AGAIN_S = 0
service = Service()
one = client(service)
judge, faults = one._judge, []
def fail(*given):
    if not faults:
        faults.append(1)
        raise MemoryError
    return judge(*given)
one._judge = fail
one.track("event 0")
until("it has failed", lambda: one._failures == 1)
assert one.flush(20) and one._thread.is_alive()
assert service.names() == ["event 0", "event 0"]
`)
})

it('corrects each form of a time that the service takes, on the oldest Python too', async () => {
  await expectToRun(`
class Old(sluice_client.datetime):
    @classmethod
    def fromisoformat(cls, text):
        raise ValueError(text)
sluice_client.datetime = Old
one = client("http://127.0.0.1:1")
one._store.set("clock", "600000")
for said in ["2026-11-28T23:55:00.5Z", "2026-11-28T23:55:00.500000000Z", "2026-11-29T01:25:00.5+01:30", "2026-11-28t23:25:00.500-00:30"]:
    event = one._correct({"timestamp": said})
    assert event == {"timestamp": "2026-11-29T00:05:00.500Z", "client_timestamp": said, "clock_correction_ms": 600000}, event
for said in ["today", "2026-13-01T00:00:00Z", 5, None]:
    assert one._correct({"timestamp": said}) == {"timestamp": said}
`)
})

it('a hook may track what it is given, also while the user is opted out', async () => {
  await expectToRun(`
calls = []
def hook(reason, events):
    calls.append(reason)
    one.track("events dropped", {"reason": reason})
service = Service()
one = client(service, on_dropped=hook)
one.opt_out()
one.track("event 0")
assert calls == ["consent"], len(calls)
one.opt_in()
one.track("event 1")
assert one.flush(20)
assert service.names() == ["event 1"]
assert service.bodies[0]["client_report"]["dropped"] == {"consent": 2}
`)
})
