// The Python client where a process forks, ends without closing it, or shares a folder with another.

import { expect, it } from 'vitest'
import { expectToRun } from './python-program.ts'

it('goes on sending after a fork while a batch waits, and a child that lives on holds nothing up', async () => {
  await expectToRun(`
is_down = True
service = Service(lambda number, body: (503, {}, "{}") if is_down else STORED)
place = folder()
one = client(service, folder=place)
one.track("first")
until("the first try", lambda: service.bodies and one._failures == 1)
assert one._lock is not None
read, write = os.pipe()
child = in_child(lambda: (os.close(write), os.read(read, 1)))
is_down = False
assert one.flush(20)
one.track("second")
assert one.flush(20)
other = client(service, folder=place)
other.track("of another")
assert other.flush(20)
os.write(write, b"x")
ended(child)
`)
})

it('lets another process send once the parent was killed, though a child of it lives', async () => {
  await expectToRun(`
down = Service(lambda number, body: (503, {}, "{}"))
place = folder()
read, write = os.pipe()
told, tell = os.pipe()
def parent():
    one = client(down, folder=place)
    one.track("first")
    until("the lock", lambda: one._lock is not None)
    in_child(lambda: (os.close(write), os.write(tell, b"x"), os.read(read, 1)))
    os.read(told, 1)
    os.kill(os.getpid(), signal.SIGKILL)
os.waitpid(in_child(parent), 0)
service = Service()
other = client(service, folder=place)
assert other.flush(20)
assert service.names() == ["first"]
os.write(write, b"x")
`)
})

it('holds to an opt-out in a child of the process, without a folder too', async () => {
  await expectToRun(`
dropped = Dropped()
service = Service()
one = client(service, on_dropped=dropped)
one.opt_out()
def work():
    one.track("child 0")
    assert one.flush(20)
    assert dropped == [("consent", ["child 0"])], dropped
ended(in_child(work))
assert service.names() == []
`)
})

it('keeps what a child has to obey, and no batch of its parent', async () => {
  await expectToRun(`
service = Service(lambda number, body: (503, {"Retry-After": "600"}, "{}"))
one = client(service)
one.track("parent 0")
until("the refusal", lambda: one._failures == 1)
def work():
    one.track("child 0")
    assert not one.flush(20)
    assert len(one._names()) == 1
ended(in_child(work))
assert service.names() == ["parent 0"], service.names()
`)
})

it('holds to an opt-out that another process of its folder was told', async () => {
  await expectToRun(`
dropped = Dropped()
service = Service()
place = folder()
one = client(service, folder=place, on_dropped=dropped, flush_interval_s=60)
one.track("before")
ended(in_child(lambda: client(service, folder=place).opt_out()))
one.track("while out")
assert one.flush(20)
assert sorted(dropped) == [("consent", ["before"]), ("consent", ["while out"])], dropped
one.track("before again")
ended(in_child(lambda: client(service, folder=place).opt_in()))
one.track("after")
assert one.flush(20)
assert service.names() == ["after"], service.names()
`)
})

it('takes an opt-in first in a child, though another thread of the parent was in the client', async () => {
  await expectToRun(`
one = client("http://127.0.0.1:1")
one._changed.acquire()
children = []
fork = threading.Thread(target=lambda: children.append(in_child(one.opt_in)))
fork.start()
fork.join()
ended(children[0])
one._changed.release()
`)
})

it.each(['', 'folder=folder()'])('sends at the end of a program that does not close it (%s)', async (options) => {
  await expectToRun(`
service = Service()
def work():
    one = client(service, flush_interval_s=60, ${options})
    one.track("event 0")
    import atexit
    atexit._run_exitfuncs()
    assert one._closed
ended(in_child(work))
until("it is sent", lambda: service.names() == ["event 0"])
`)
})

const ENDS = `
import atexit
import sluice_client
one = sluice_client.Client("http://127.0.0.1:1", "ak_end", folder=PLACE, on_dropped=lambda reason, events: print(reason, len(events)))
atexit.register(lambda: one.track("event 1"))
one.track("event 0")
`

it('at the end of a program reports what is in memory, and keeps what is in a folder', async () => {
  const program = ENDS.replaceAll('\n', '\\n')
  expect(
    await expectToRun(`
import subprocess, sys
def end(place):
    text = '''${program}'''.replace("PLACE", repr(place))
    return subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=40)
print(end(None).stdout, end(None).stderr)
place = folder()
print(end(place))
service = Service()
one = client(service, folder=place)
assert one.flush(20)
print(service.names())
`),
  ).toMatch(/^closed 2\n \nCompletedProcess\(.*returncode=0, stdout='', stderr=''\)\n\['event 0', 'event 1'\]\n$/)
})
