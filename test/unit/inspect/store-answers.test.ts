import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, it, onTestFinished, vi } from 'vitest'
import { ReadingBudget } from '../../../src/inspect/reading-budget.ts'
import { StoreAnswers } from '../../../src/inspect/store-answers.ts'
import { StartError, UnavailableError } from '../../../src/lib/errors.ts'
import { makeFolder } from '../../support/service.ts'
import { storedBytes } from '../../support/stored-bytes.ts'
import { ManualTimers } from '../../support/timers.ts'
import { anApp } from '../apps/apps.ts'

/** Arrays in arrays: the explainer takes most of a second for half a megabyte of them. */
const SLOW = Buffer.from(`{"app_key":"ak_x","x":[${`${'['.repeat(60)}${']'.repeat(60)},`.repeat(4200)}1]}`)

function storeAnswers(timers = new ManualTimers(), onFault = (error: unknown): void => expect.fail(String(error))) {
  const own = new StoreAnswers(timers, async () => [], onFault)
  own.open = {
    apps: { find: () => 'unknown', findById: () => 'unknown', all: () => [] },
    readUsages: () => [],
    readDays: () => [],
    readAlerts: async () => [],
    queue: { refusalNow: () => null },
    bytes: storedBytes(),
    place: { dataDirectory: '/nowhere', nats: null, partitions: 16, spool: null },
    example: () => ({ port: 8080, tls: true, app_key: 'ak_demo_1' }),
  }
  return own
}

it('reads a body to explain in another thread, so that no request waits for it', async () => {
  let isAnswered = false
  const answer = storeAnswers()
    .answer('explain', { query: '', body: SLOW, scope: 'all' })
    .finally(() => {
      isAnswered = true
    })
  // No other thread can be heard in these turns.
  for (let turn = 0; turn < 1000; turn++) await Promise.resolve()
  expect(isAnswered).toBe(false)
  const { status, json } = await answer
  expect([status, (JSON.parse(json) as { code: string }).code]).toEqual([200, 'invalid_app_key'])
})

it('explains one body at a time', async () => {
  const own = storeAnswers()
  const [first, second] = await Promise.all(
    [1, 2].map(() => own.answer('explain', { query: '', body: SLOW, scope: 'all' })),
  )
  expect([first.status, second.status]).toEqual([200, 503])
})

it.each([
  ['batch', 'id=0199f3a0-7c1e-5d2a-9f5b-3e8c1a2b4c6d', { found: false, reason: 'empty' }],
  ['search', 'q=user-41', { found: [], complete: true }],
  ['events', 'limit=3', { events: [], complete: true }],
] as const)(
  'reads the queue for one question of the kind %s at a time, in another thread',
  async (name, query, read) => {
    const own = storeAnswers()
    let threads = 0
    const count = (): void => void (threads += 1)
    process.on('worker', count)
    onTestFinished(() => void process.off('worker', count))
    const [first, second] = await Promise.all(
      [1, 2].map(() => own.answer(name, { query, body: Buffer.alloc(0), scope: 'all' })),
    )
    expect(JSON.parse(first.json)).toMatchObject(read)
    expect([first.status, second.status, threads]).toEqual([200, 503, 1])
  },
)

it.each([
  ['batch', 'id=0199f3a0-7c1e-5d2a-9f5b-3e8c1a2b4c6d', [200, 200, 200, 503]],
  ['events', 'limit=3', [200, 200, 200, 503]],
] as const)('keeps a place for the operators while apps read %s', async (name, query, statuses) => {
  const own = storeAnswers()
  const scopes = [{ appId: 'shop' }, { appId: 'other' }, 'all', 'all'] as const
  const answers = await Promise.all(scopes.map((scope) => own.answer(name, { query, body: Buffer.alloc(0), scope })))
  expect(answers.map(({ status }) => status)).toEqual(statuses)
})

it('lets twenty questions of apps wait, answers them in turn, and refuses further ones', async () => {
  const own = storeAnswers()
  const order: number[] = []
  let running = 0
  own.open = {
    ...(own.open ?? expect.fail()),
    readAlerts: async () => {
      running += 1
      expect(running).toBeLessThanOrEqual(4)
      await new Promise((resolve) => setTimeout(resolve, 1))
      running -= 1
      return []
    },
  }
  const ask = async (at: number): Promise<number> => {
    const scope = { appId: `app-${at}` }
    const { status } = await own.answer('alerts', { query: '', body: Buffer.alloc(0), scope })
    if (status === 200) order.push(at)
    return status
  }
  const statuses = await Promise.all(Array.from({ length: 26 }, (_, at) => ask(at)))
  expect(statuses).toEqual([...Array.from({ length: 24 }, () => 200), 503, 503])
  expect(order).toEqual(Array.from({ length: 24 }, (_, at) => at))
  expect(await ask(30)).toBe(200)
})

it('takes apps in turn, so that one that asks a lot holds up no other, and no operator', async () => {
  const own = storeAnswers()
  const readings: (() => void)[] = []
  own.open = {
    ...(own.open ?? expect.fail()),
    readAlerts: () => new Promise((resolve) => readings.push(() => resolve([]))),
  }
  const answered: string[] = []
  const ask = async (name: string, isOperator: boolean): Promise<void> => {
    const scope = isOperator ? { appId: name, isOperator } : { appId: name }
    const { status } = await own.answer('alerts', { query: '', body: Buffer.alloc(0), scope })
    answered.push(`${name} ${status}`)
  }
  const many = Array.from({ length: 30 }, () => ask('greedy', false))
  const others = [ask('other', false), ask('other', false), ask('greedy', true)]
  await Promise.all(many.slice(9))
  // Four are answered and five wait.
  expect(answered).toEqual(Array.from({ length: 21 }, () => 'greedy 503'))
  expect(readings).toHaveLength(5)
  while (answered.length < 33) {
    readings.shift()?.()
    await new Promise((resolve) => setImmediate(resolve))
  }
  await Promise.all([...many, ...others])
  const greedy = (count: number): string[] => Array.from({ length: count }, () => 'greedy 200')
  // One after the other, as places come free: by turns, and the operator's at once.
  expect(answered.slice(21).filter((line) => line.startsWith('other'))).toEqual(['other 200', 'other 200'])
  expect(answered.slice(21).indexOf('other 200')).toBeLessThan(8)
  expect(answered.slice(21).filter((line) => line === 'greedy 200')).toEqual(greedy(10))
})

it('lets a question of an app wait four seconds for a place, and refuses it then', async () => {
  const timers = new ManualTimers()
  const own = storeAnswers(timers)
  const readings: (() => void)[] = []
  own.open = {
    ...(own.open ?? expect.fail()),
    readAlerts: () => new Promise((resolve) => readings.push(() => resolve([]))),
  }
  const told: string[] = []
  const ask = async (name: string): Promise<void> => {
    const scope = { appId: name }
    const { status } = await own.answer('alerts', { query: '', body: Buffer.alloc(0), scope })
    told.push(`${name} ${status}`)
  }
  const asked = ['a', 'b', 'c', 'd', 'fifth', 'sixth'].map(ask)
  await timers.pass(3999)
  readings[0]()
  await timers.pass(0)
  expect(told).toEqual(['a 200'])
  await timers.pass(1)
  expect(told).toEqual(['a 200', 'sixth 503'])
  for (const end of readings.slice(1)) end()
  await Promise.all(asked)
  expect(told.toSorted()).toEqual(['a 200', 'b 200', 'c 200', 'd 200', 'fifth 200', 'sixth 503'])
})

it.each([
  ['"app_key":5,', 400, 'app_key: must be a string'],
  ['"app_key":null,', 400, 'app_key: must be a string'],
  ['"app_key":"ak_shop","app_key":"ak_shop",', 400, 'app_key: must appear once'],
  ['', 202, '0 events would be stored'],
])('takes a body with %s for one of the app that asks only where it names none', async (member, status, message) => {
  const own = storeAnswers()
  const shop = anApp({ appId: 'shop', appKey: 'ak_shop' })
  const found = (isIt: boolean) => (isIt ? shop : 'unknown')
  const apps = {
    find: (key: string) => found(key === shop.appKey),
    findById: (id: string) => found(id === 'shop'),
    all: () => [],
  }
  const free = { limit: 100, used: 0, endsAtMs: 1000 }
  const usage = { atMs: 0, minute: free, day: free, month: free }
  if (own.open !== null) own.open = { ...own.open, apps, readUsages: async () => [usage] }
  const body = Buffer.from(`{${member}"events":[]}`)
  const { json } = await own.answer('explain', { query: '', body, scope: { appId: 'shop' } })
  expect(JSON.parse(json)).toMatchObject({ status, message })
})

const OF_ALL = { query: '', body: Buffer.alloc(0), scope: 'all' } as const
const named = (name: string, text: string) => Object.assign(new Error(text), { name })

it.each([
  ['a connection that NATS closed', named('ClosedConnectionError', 'closed')],
  ['a NATS that does not answer in time', named('TimeoutError', 'timeout')],
  [
    'what an entry of a bucket was read with',
    new Error('no answer', { cause: named('NoResponders', 'no responders') }),
  ],
  ['a NATS that cannot be reached', new UnavailableError('NATS cannot be reached')],
  ['a store that cannot be read', new StartError('the stream cannot be read')],
  ['a disk', Object.assign(new Error('EIO: i/o error, read'), { errno: -5, code: 'EIO', syscall: 'read' })],
])('answers 503 for %s, which is no bug', async (_, error) => {
  const own = storeAnswers()
  own.open = { ...(own.open ?? expect.fail()), readAlerts: () => Promise.reject(error) }
  const { status, json } = await own.answer('alerts', OF_ALL)
  expect([status, JSON.parse(json)]).toMatchObject([503, { error: 'unavailable' }])
})

it.each([
  ['a wrong type', new TypeError('x is not a function')],
  ['an invariant', new Error('there is no app to give way')],
  ['wrong arguments for NATS', named('InvalidArgumentError', 'no subject')],
  ['wrong arguments for Node', Object.assign(new TypeError('not a string'), { code: 'ERR_INVALID_ARG_TYPE' })],
])('answers 500 for %s, which is a bug, and reports it', async (_, error) => {
  const faults: unknown[] = []
  const own = storeAnswers(new ManualTimers(), (fault) => void faults.push(fault))
  own.open = { ...(own.open ?? expect.fail()), readDays: () => Promise.reject(error) }
  own.open.apps.all = () => [anApp({ appId: 'shop' })]
  const { status, json } = await own.answer('days', OF_ALL)
  expect([status, JSON.parse(json)]).toMatchObject([500, { error: 'internal_error' }])
  expect(faults).toEqual([error])
})

it('tells a queue that cannot be read in its thread from a bug there, whose stack it reports', async () => {
  const faults: unknown[] = []
  const own = storeAnswers(new ManualTimers(), (fault) => void faults.push(fault))
  const stores = own.open ?? expect.fail()
  const ask = async (place: object) => {
    own.open = { ...stores, place: { ...stores.place, ...place } }
    return (await own.answer('events', OF_ALL)).status
  }
  // It holds a file where the journal's folder is wanted.
  const dataDirectory = await makeFolder()
  await writeFile(join(dataDirectory, 'journal'), '')
  expect([await ask({ dataDirectory }), faults]).toEqual([503, []])
  expect(await ask({ dataDirectory: 5 })).toBe(500)
  expect(faults).toEqual([expect.objectContaining({ stack: expect.stringMatching(/\n +at /) as string })])
})

it('lists the apps whose key an id may be in short turns of the event loop', async () => {
  const timers = new ManualTimers()
  let turns = 0
  timers.setImmediate = (task) => {
    turns += 1
    queueMicrotask(task)
  }
  const own = storeAnswers(timers)
  const all = Array.from({ length: 20_000 }, (_, at) => anApp({ appId: `app-${at}` }))
  own.open = {
    ...(own.open ?? expect.fail()),
    apps: { find: () => 'unknown', findById: () => 'unknown', all: () => all },
  }
  const ask = async (text: string) =>
    (await own.answer('search', { query: `q=${text}`, body: Buffer.alloc(0), scope: 'all' })).status
  expect([await ask('user-41'), turns]).toEqual([200, 0])
  expect([await ask('0199f3a0-7c1e-5d2a-9f5b-3e8c1a2b4c6d'), turns]).toEqual([200, 9])
})

it('refuses what would be read for an app that has used up its minute, and answers others and the operators', async () => {
  const timers = new ManualTimers()
  const own = storeAnswers(timers)
  vi.spyOn(ReadingBudget.prototype, 'secondsLeft').mockImplementation((appId) => (appId === 'greedy' ? 40 : 0))
  const add = vi.spyOn(ReadingBudget.prototype, 'add')
  onTestFinished(() => void vi.restoreAllMocks())
  const ask = async (name: 'events' | 'explain' | 'alerts', appId: string, isOperator = false) => {
    const scope = isOperator ? { appId, isOperator } : { appId }
    return await own.answer(name, { query: '', body: Buffer.from('{'), scope })
  }
  for (const name of ['events', 'explain'] as const) {
    const { status, json } = await ask(name, 'greedy')
    expect([status, JSON.parse(json)]).toMatchObject([429, { error: 'too_many_searches', retry_after_seconds: 40 }])
  }
  expect(add).not.toHaveBeenCalled()
  expect([(await ask('alerts', 'greedy')).status, (await ask('events', 'greedy', true)).status]).toEqual([200, 200])
  expect(add).not.toHaveBeenCalled()
  for (const name of ['events', 'explain'] as const) expect((await ask(name, 'other')).status).toBe(200)
  expect(add.mock.calls.map(([appId]) => appId)).toEqual(['other', 'other'])
})

it.each([
  { end: 'answers', name: 'explain', body: Buffer.from('{'), place: {}, passMs: 700, status: 200 },
  {
    end: 'cannot read',
    name: 'events',
    body: Buffer.alloc(0),
    place: { dataDirectory: '/dev/null' },
    passMs: 700,
    status: 503,
  },
  { end: 'has a bug', name: 'events', body: Buffer.alloc(0), place: { dataDirectory: 5 }, passMs: 700, status: 500 },
  { end: 'takes too long', name: 'explain', body: SLOW, place: {}, passMs: 10_000, status: 503 },
] as const)('charges an app for all the time of a thread that $end', async ({ name, body, place, passMs, status }) => {
  const timers = new ManualTimers()
  const own = storeAnswers(timers, () => {})
  const stores = own.open ?? expect.fail()
  own.open = { ...stores, place: { ...stores.place, ...(place as object) } }
  const add = vi.spyOn(ReadingBudget.prototype, 'add')
  onTestFinished(() => void vi.restoreAllMocks())
  const begin = (): void => void timers.pass(passMs)
  process.once('worker', begin)
  onTestFinished(() => void process.off('worker', begin))
  const answer = await own.answer(name, { query: '', body, scope: { appId: 'shop' } })
  expect([answer.status, add.mock.calls]).toEqual([status, [['shop', passMs]]])
})

it.each(['apps', 'days'] as const)(
  'of an app that is not there, the answer to %s is in the words of its port',
  async (name) => {
    const own = storeAnswers()
    const ask = async (scope: { appId: string; isOperator?: boolean }) => {
      const { status, json } = await own.answer(name, { query: '', body: Buffer.alloc(0), scope })
      return [status, (JSON.parse(json) as { error: string }).error]
    }
    expect(await ask({ appId: 'gone', isOperator: true })).toEqual([404, 'no_such_app'])
    expect(await ask({ appId: 'gone' })).toEqual([404, 'not_found'])
  },
)
