import type { NatsConnection } from '@nats-io/transport-node'
import { expect, it } from 'vitest'
import type { ServerStorage } from '../../../../src/nats/server-facts.ts'
import type { StreamReport } from '../../../../src/queue/stream/stream.ts'
import { StreamKeeper, type StreamKeeperOptions } from '../../../../src/queue/stream/stream-keeper.ts'
import { NEW_STREAM, streamOf } from '../../../support/jetstream.ts'
import { ManualTimers } from '../../../support/timers.ts'

const MIB = 1024 ** 2

function keep(
  connection: NatsConnection,
  options: Partial<StreamKeeperOptions> = {},
): { lines: string[]; timers: ManualTimers; keeper: StreamKeeper } {
  const lines: string[] = []
  const timers = new ManualTimers()
  const onNotice = (message: string): void => void lines.push(message)
  const keeper = new StreamKeeper({ newStream: NEW_STREAM, onReport: () => {}, onNotice, timers, ...options })
  keeper.use(connection)
  return { lines, timers, keeper }
}

it('a stream that fills is logged at each step with a date, once it is full, and when there is room', async () => {
  const facts = { bytes: 70 * MIB, config: { max_bytes: 100 * MIB } }
  const { lines, timers } = keep(streamOf(facts))
  for (; facts.bytes <= 100 * MIB; facts.bytes += MIB) await timers.pass(10_000)
  facts.bytes = 50 * MIB
  await timers.pass(20_000)
  const advice =
    'requests get 503: raise its max_bytes, or purge what all consumers have had (docs/runbooks.md, SluiceQueueRefuses)'
  expect(lines).toEqual([
    expect.stringMatching(
      /^stream SLUICE_EVENTS is 80% full \(80 MiB of 100 MiB\) and will be full on 1970-01-01T00:0\dZ at/,
    ),
    expect.stringMatching(/^stream SLUICE_EVENTS is 90% full .*; when full, /),
    expect.stringMatching(/^stream SLUICE_EVENTS is 95% full /),
    `stream SLUICE_EVENTS is full (100 MiB of 100 MiB): answering 503 until there is room: ${advice.slice(18)}`,
    'stream SLUICE_EVENTS has room again (50 MiB of 100 MiB): requests get 202 as before',
  ])
  expect(lines[0]).toContain(`when full, ${advice}`)
})

it.each([{ max_bytes: -1 }, { max_bytes: 100 * MIB, discard: 'old' }])(
  'a stream that never refuses for its size is none that fills: %j',
  async (config) => {
    const { lines, timers } = keep(streamOf({ bytes: 100 * MIB, config }))
    await timers.pass(20_000)
    expect(lines.filter((line) => line.includes('full'))).toEqual([])
  },
)

it('a stream that refuses a message at its max_bytes is full at once, not with the next measurement, and is looked at once', async () => {
  const facts = { bytes: 70 * MIB, config: { max_bytes: 100 * MIB } }
  const { lines, timers, keeper } = keep(streamOf(facts))
  await timers.pass(1000)
  for (let refused = 0; refused < 5; refused += 1) {
    keeper.noteRefusal('maximum bytes exceeded')
    await timers.pass(500)
  }
  expect(lines).toEqual([expect.stringMatching(/^stream SLUICE_EVENTS is full \(70 MiB of 100 MiB\): answering 503 /)])
})

it.each([
  ['the NATS account', 1, (used: number) => ({ storage: used, limits: { max_storage: 100 * MIB } })],
  [
    'tier R3 of the NATS account',
    3,
    (used: number) => ({
      storage: 0,
      limits: { max_storage: 1 },
      tiers: { R3: { storage: 3 * used, limits: { max_storage: 100 * MIB } } },
    }),
  ],
])(
  '%s that fills is logged as a stream is, and what is shown of the room is that of the tightest limit',
  async (store, replicas, accountOf) => {
    const facts = {
      bytes: 10 * MIB,
      config: { max_bytes: 1000 * MIB, num_replicas: replicas },
      account: accountOf(75 * MIB),
    }
    const { lines, timers, keeper } = keep(streamOf(facts))
    await timers.pass(1000)
    expect(keeper.measured).toMatchObject({ bytes: 10 * MIB, maxBytes: 35 * MIB })
    for (const used of [85, 92, 96, 100, 50]) {
      facts.account = accountOf(used * MIB)
      await timers.pass(10_000)
    }
    const told = [
      / is 80% full /,
      / is 90% full /,
      / is 95% full /,
      / is full .*: raise its storage limit/,
      / has room again /,
    ]
    expect(lines).toEqual(told.map((words) => expect.stringMatching(words)))
    for (const line of lines) expect(line).toMatch(`${store} `)
    keeper.use(null)
  },
)

it('the storage of a server that fills is logged as a stream is', async () => {
  let usedBytes = 10 * MIB
  const serverStorage = () => [
    { server: 'n0', usedBytes: MIB, maxBytes: 100 * MIB },
    { server: 'n1', usedBytes, maxBytes: 100 * MIB },
  ]
  const { lines, timers, keeper } = keep(streamOf({ bytes: 5 * MIB, config: {} }), { serverStorage })
  await timers.pass(1000)
  expect(keeper.measured?.maxBytes).toBe(95 * MIB)
  usedBytes = 95 * MIB
  await timers.pass(10_000)
  keeper.noteRefusal('insufficient resources')
  await timers.pass(1000)
  expect(lines).toEqual([
    expect.stringMatching(/^the storage of NATS server n1 is 95% full \(95 MiB of 100 MiB\) .*; when full, /),
    expect.stringMatching(/^the storage of NATS server n1 is full /),
  ])
  keeper.use(null)
})

it('a limit that is new since the last measurement is told of once it refuses a message, not with the next measurement', async () => {
  const servers: ServerStorage[] = []
  const facts = { bytes: 5 * MIB, config: {}, account: {} }
  const { lines, timers, keeper } = keep(streamOf(facts), { serverStorage: () => servers })
  const refuse = async (reason: string): Promise<void> => {
    for (let refused = 0; refused < 2; refused += 1) {
      keeper.noteRefusal(reason)
      await timers.pass(500)
    }
  }
  await timers.pass(1000)
  servers.push({ server: 'n1', usedBytes: 50 * MIB, maxBytes: 100 * MIB })
  await refuse('insufficient resources')
  facts.account = { storage: 5 * MIB, limits: { max_storage: 10 * MIB } }
  await refuse('resource limits exceeded for account')
  expect(lines).toEqual([
    expect.stringMatching(/^the storage of NATS server n1 is full /),
    expect.stringMatching(/^the NATS account is full /),
  ])
  keeper.use(null)
})

it('a server that no longer holds a copy is forgotten, with what was said of it', async () => {
  let servers = ['n1']
  const serverStorage = () => servers.map((server) => ({ server, usedBytes: 85 * MIB, maxBytes: 100 * MIB }))
  const { lines, timers, keeper } = keep(streamOf({ bytes: 5 * MIB, config: {} }), { serverStorage })
  await timers.pass(20_000)
  for (const next of [[], ['n1']]) {
    servers = next
    await timers.pass(20_000)
  }
  expect(lines).toEqual(Array(2).fill(expect.stringMatching(/^the storage of NATS server n1 is 80% full /)))
  keeper.use(null)
})

it('a stream whose settings turn unsafe, or safe again, while nothing is published is reported again', async () => {
  const reports: string[] = []
  const timers = new ManualTimers()
  const facts = { bytes: MIB, config: {} }
  const onReport = (report: StreamReport): void =>
    void reports.push(report.kind === 'present' ? (report.facts.unsafe ?? 'safe') : report.kind)
  const keeper = new StreamKeeper({ newStream: NEW_STREAM, onReport, onNotice: () => {}, timers })
  keeper.use(streamOf(facts))
  await timers.pass(30_000)
  expect(reports).toEqual(['safe'])
  facts.config = { persist_mode: 'async' }
  await timers.pass(30_000)
  expect(reports).toEqual(['safe', expect.stringContaining('persist_mode')])
  facts.config = {}
  await timers.pass(30_000)
  expect(reports).toEqual(['safe', expect.stringContaining('persist_mode'), 'safe'])
  keeper.use(null)
})
