// The Python client against the service itself: what it tracked is in the journal once, or was reported as dropped.

import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { beforeAll, expect, it } from 'vitest'
import { readJournal } from '../support/journal-files.ts'
import { appRecord, eventually, makeFolder, type Service, startService } from '../support/service.ts'

const CLIENT = resolve(import.meta.dirname, '../../clients/python')
const README = readFileSync(join(CLIENT, 'README.md'), 'utf8')
const [, EXAMPLE = ''] = /```python\n(.*?)```/s.exec(README) ?? []
/** A program, which then fails. */
const HANGS_AFTER_MS = 60_000
const APPS = ['many', 'example', 'fork', 'killed', 'shared', 'memory'].map((name) => appRecord(name))

let service: Service
beforeAll(async () => {
  service = await startService({ apps: APPS })
})

const url = (): string => `http://127.0.0.1:${service.port}`
/** Paths, and what it wants of its surroundings; the client is imported from its folder. */
const envOf = (folder: string): NodeJS.ProcessEnv => ({
  ...process.env,
  PYTHONPATH: CLIENT,
  PYTHONDONTWRITEBYTECODE: '1',
  FOLDER: folder,
  URL: url(),
})

const HEAD = `
import json, os, sys, time
from sluice_client import Client
def client(app, **options):
    return Client(os.environ["URL"], "ak_" + app, on_dropped=tell, **options)
def tell(reason, events):
    print(json.dumps([reason, [event["name"] for event in events]]), flush=True)
FOLDER = os.environ["FOLDER"]
`

function run(program: string, folder: string): string {
  return execFileSync('python3', ['-c', `${HEAD}${program}`], {
    env: envOf(folder),
    encoding: 'utf8',
    timeout: HANGS_AFTER_MS,
  })
}

function storedOf(app: string): { name: string; event_id: string; timestamp: string }[] {
  const records = readJournal(service.dataDir).filter((record) => record.app_id === app)
  return records.flatMap((record) => record.events as unknown as ReturnType<typeof storedOf>)
}

const names = (prefix: string, count: number): string[] =>
  Array.from({ length: count }, (_, place) => `${prefix} ${place}`).toSorted()

it('is text of Python 3.9', () => {
  const parse = `import ast; ast.parse(open("${CLIENT}/sluice_client.py").read(), feature_version=(3, 9))`
  expect(spawnSync('python3', ['-c', parse], { encoding: 'utf8' }).stderr).toBe('')
})

it('stores what it tracked once, and reports what the service refuses and what has no JSON', async () => {
  const printed = run(
    `
with client("many", folder=FOLDER, context={"app_version": "4.2"}) as one:
    for place in range(250):
        one.track(f"event {place}", {"text": "é" * 300}, user_id="user-1")
    one.revenue("purchase", {"amount": 9.99})
    one.screen("start")
    one.track("n" * 201)
    one.track("no json", {"value": float("nan")})
    print(one.flush(), one.flush(), flush=True)
one.track("late")
print(os.listdir(FOLDER))
`,
    await makeFolder(),
  )
  expect(
    storedOf('many')
      .map(({ name }) => name)
      .toSorted(),
  ).toEqual([...names('event', 250), 'purchase', 'start'].toSorted())
  expect(new Set(storedOf('many').map(({ event_id }) => event_id)).size).toBe(252)
  expect(printed.trim().split('\n').toSorted()).toEqual(
    [
      'True True',
      '["invalid", ["no json"]]',
      `["invalid", ["${'n'.repeat(201)}"]]`,
      '["closed", ["late"]]',
      // What it dropped waits to be told with the next batch.
      "['.lock', 'dropped']",
    ].toSorted(),
  )
})

it('runs the example of its README', async () => {
  const folder = await makeFolder()
  const here = EXAMPLE.replace('https://events.example.com', url())
    .replace('ak_demo_2f6c1d', 'ak_example')
    .replace('/var/lib/shop/events', folder)
  expect(here).toContain(folder)
  expect(run(here, folder)).toBe('')
  expect(storedOf('example').map(({ name }) => name)).toEqual(['signup', 'purchase'])
})

it('without a folder reports at its end what no service took', async () => {
  const printed = run(
    `
one = Client("http://127.0.0.1:1", "ak_memory", on_dropped=tell)
one.track("event 0")
one.close(1)
`,
    await makeFolder(),
  )
  expect(printed).toBe('["closed", ["event 0"]]\n')
})

it('after a fork has the child send its own events, and none of the parent', async () => {
  run(
    `
one = client("fork", folder=FOLDER)
one.track("parent 0")
child = os.fork()
for place in range(1, 4):
    one.track(f"child {place}" if child == 0 else f"parent {place}")
if child == 0:
    one.flush()
    os._exit(0)
os.waitpid(child, 0)
assert one.flush()
one.close()
`,
    await makeFolder(),
  )
  await eventually('the child has sent, or its parent for it', () => storedOf('fork').length >= 7)
  expect(
    storedOf('fork')
      .map(({ name }) => name)
      .toSorted(),
  ).toEqual([...names('child', 4).slice(1), ...names('parent', 4)])
})

it('killed again and again, it loses and doubles nothing that it sealed', async () => {
  const folder = await makeFolder()
  const program = `${HEAD}
one = client("killed", folder=FOLDER)
for place in range(10_000):
    one.track(f"{sys.argv[1]} {place}")
    if place % 20 == 19:
        one.flush(0)
        print(place, flush=True)
        time.sleep(0.005)
`
  for (const round of ['first', 'second', 'third']) {
    const child = spawn('python3', ['-c', program, round], { env: envOf(folder), stdio: ['ignore', 'pipe', 'inherit'] })
    let said = ''
    child.stdout.on('data', (piece) => (said += piece))
    await eventually('some is stored', () => storedOf('killed').some(({ name }) => name.startsWith(round)))
    child.kill('SIGKILL')
    await once(child, 'close')
    expect(said).not.toBe('')
    run(`one = client("killed", folder=FOLDER)\nassert one.flush()\none.close()`, folder)
    const flushed = Number(said.trim().split('\n').at(-1)) + 1
    const stored = storedOf('killed').filter(({ name }) => name.startsWith(round))
    const all = new Set(stored.map(({ name }) => name))
    expect(stored.length).toBe(all.size)
    expect(names(round, flushed).filter((name) => !all.has(name))).toEqual([])
  }
})

it('sends by one of those that share a folder, while something of it waits, and by another once that one is gone', async () => {
  run(
    `
idle = client("shared", folder=FOLDER)
idle.track("idle 0")
assert idle.flush()
holder = Client("http://127.0.0.1:1", "ak_shared", folder=FOLDER)
holder.track("holder 0")
assert not holder.flush()
other = client("shared", folder=FOLDER)
other.track("other 0")
assert not other.flush(1)
holder.close(0)
assert other.flush()
`,
    await makeFolder(),
  )
  expect(storedOf('shared').map(({ name }) => name)).toEqual(['idle 0', 'holder 0', 'other 0'])
})
