// nginx, HAProxy and Envoy with the files of deploy/balancers, in front of two nodes: no client sees that a node closes
// idle connections, that another client is slow, or that a node goes.

import { spawnSync } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { batchIdOf } from '../../src/contract/ids.ts'
import { sendAfterSilences, sendOne, type Tally } from '../support/balancer-traffic.ts'
import {
  BALANCERS,
  type Balancer,
  type BalancerName,
  type NodeAddress,
  programOf,
  startBalancer,
} from '../support/balancers.ts'
import {
  type Answer,
  bodyOfSize,
  expectAccepted,
  expectRefused,
  MAX_BODY_BYTES,
  post,
  single,
} from '../support/client.ts'
import { BREAK, type FrontNode, startFrontNode } from '../support/front-node.ts'
import { readJournal } from '../support/journal-files.ts'
import { freePort } from '../support/programs.ts'
import { startProxy } from '../support/proxy.ts'
import { head, openRaw, type RawConnection, rawPost } from '../support/raw-http.ts'
import { appRecord, eventually, makeFolder, type Service, sleep, startService } from '../support/service.ts'
import { storedFaults } from '../support/stored-once.js'

/** SLUICE_TEST_BALANCER_REQUESTS=20000 is the long run. */
const REQUESTS = Number(process.env['SLUICE_TEST_BALANCER_REQUESTS'] ?? 300)
const REQUESTS_OF_A_CLIENT = REQUESTS > 2000 ? 20 : 4
/** SLUICE_TEST_BALANCER_SILENCES_MS=8000,12500 is the time at which nodes close idle connections. */
const [LEAST_SILENCE_MS, MOST_SILENCE_MS] = (process.env['SLUICE_TEST_BALANCER_SILENCES_MS'] ?? '0,15000')
  .split(',')
  .map(Number)
/** All clients send within this time for each of them, after they were silent together. */
const WAVE_MS_OF_A_CLIENT = 2
/** Between balancer and node, each way. */
const ONE_WAY_MS = 20
/** A node may close a connection that has been idle for so long. */
const NODE_IDLE_MS = 8000
/** 5 KB a second, in pieces of 500 bytes. */
const PIECE_PAUSE_MS = 100
const LATE_MS = 12_000
const LEAST_PAUSE_MS = 20
/** A balancer that did not wait for the whole body would have passed on what it has. */
const TAKEN_MS = 1000
const UNLIMITED = { plan: 'trial', events_per_minute: 1_000_000_000, events_per_month: 1_000_000_000 }
const APPS = [appRecord('plain', UNLIMITED)]
const SMALL = { SLUICE_PARSERS: '1', SLUICE_RING_MB: '16' }

type Two<T> = readonly [T, T]

/** Called at the end of a test, the last one first. */
type AtEnd = (end: () => Promise<void>) => void

async function startNodes(atEnd: AtEnd, env: Record<string, string> = {}): Promise<Two<Service>> {
  const start = async (): Promise<Service> => {
    const dataDir = await makeFolder()
    const node = await startService({ dataDir, apps: APPS, env: { ...SMALL, ...env } })
    atEnd(() => node.kill())
    return node
  }
  return [await start(), await start()]
}

async function startBefore(name: BalancerName, nodes: Two<NodeAddress>, atEnd: AtEnd): Promise<Balancer> {
  const balancer = await startBalancer(name, nodes)
  atEnd(() => balancer.stop())
  return balancer
}

/** With some way between, on which what is sent is lost when the connection closes. */
async function startFarBefore(name: BalancerName, [first, second]: Two<Service>, atEnd: AtEnd): Promise<Balancer> {
  const away = async ({ port, adminPort }: Service): Promise<NodeAddress> => {
    const way = await startProxy(port)
    atEnd(() => way.stop())
    way.delay(ONE_WAY_MS)
    return { port: way.port, adminPort }
  }
  return startBefore(name, [await away(first), await away(second)], atEnd)
}

async function startBeforeStandIns(name: BalancerName, atEnd: AtEnd): Promise<[Balancer, Two<FrontNode>]> {
  const broken = new Set<string>()
  const start = async (): Promise<FrontNode> => {
    const node = await startFrontNode(broken)
    atEnd(() => node.stop())
    return node
  }
  const standIns = [await start(), await start()] as const
  const [first, second] = standIns.map(({ port }) => ({ port, adminPort: port }))
  return [await startBefore(name, [first, second], atEnd), standIns]
}

async function open(port: number, atEnd: AtEnd): Promise<RawConnection> {
  const raw = await openRaw(port)
  atEnd(async () => raw.close())
  return raw
}

async function answerOn(raw: RawConnection): Promise<Answer> {
  return (await raw.readAnswer()) ?? expect.fail('no answer')
}

/** Before each of the half of a client's requests. */
function randomSilences(): number[] {
  return Array.from(
    { length: REQUESTS_OF_A_CLIENT / 2 },
    () => LEAST_SILENCE_MS + Math.random() * (MOST_SILENCE_MS - LEAST_SILENCE_MS),
  )
}

function expectEachStoredOnce(tally: Tally, nodes: Two<Service>): void {
  expect(tally.other.map(({ whole }) => whole).slice(0, 5), 'answers other than 202').toEqual([])
  expect(tally.lost, 'connections that ended without an answer').toBe(0)
  const records = nodes.flatMap(({ dataDir }) => readJournal(dataDir))
  expect(storedFaults(records, tally.accepted).slice(0, 5)).toEqual([])
}

/** What a client may keep for later, and send again. */
function expectComeAgain(answer: Answer): void {
  expect([answer.status, answer.json['error'], answer.headers['retry-after']]).toEqual([503, 'service_overloaded', '2'])
}

const lastly: (() => Promise<void>)[] = []
let nodes: Two<Service>

beforeAll(async () => {
  nodes = await startNodes((end) => lastly.unshift(end))
})
afterAll(async () => {
  for (const end of lastly) await end()
})

describe.concurrent.each(BALANCERS)('%s', (name) => {
  const missing = spawnSync(programOf(name), ['--version'], { stdio: 'ignore' }).error !== undefined
  beforeEach((context) => {
    if (missing) context.skip(`${name} is not installed: its file in deploy/balancers was not tried`)
  })

  test.concurrent('passes no trailers on: a chunked batch that has some is stored and hears 202, or is refused', async ({
    onTestFinished,
  }) => {
    const balancer = await startBefore(name, nodes, onTestFinished)
    const body = single('ak_plain')
    for (const trailer of ['X-Odd: 1\r\n', 'X: /api/v1/events HTTP/1.1\r\n', '']) {
      const raw = await open(balancer.port, onTestFinished)
      const key = randomUUID()
      const lines = ['Content-Type: application/json', 'Transfer-Encoding: chunked', `Idempotency-Key: ${key}`]
      raw.write(`${head(lines)}${body.length.toString(16)}\r\n${body}\r\n0\r\n${trailer}\r\n`)
      const answer = await answerOn(raw)
      expect([202, 400], answer.whole).toContain(answer.status)
      if (answer.status === 202) expectAccepted(answer, 1)
      else expect(answer.json).toEqual({ error: 'validation_failed', message: 'Content-Length: required' })
      const stored = nodes.flatMap(({ dataDir }) => readJournal(dataDir)).map(({ batch_id: id }) => id)
      expect(stored.includes(batchIdOf('plain', key))).toBe(answer.status === 202)
    }
  })

  test.concurrent(`loses none of ${REQUESTS} requests whose clients are silent for ${LEAST_SILENCE_MS / 1000} to ${MOST_SILENCE_MS / 1000} s before each`, {
    timeout: 1_200_000,
  }, async ({ onTestFinished }) => {
    const balancer = await startFarBefore(name, nodes, onTestFinished)
    // Half of the requests when each client likes, half in waves: a wave meets connections that nobody has used since
    // the last one.
    const clients = Array.from({ length: REQUESTS / REQUESTS_OF_A_CLIENT }, () => randomSilences())
    const tally = await sendAfterSilences(balancer.port, 'ak_plain', clients)
    const together = randomSilences()
    const inWaves = clients.map(() => together.map((ms) => ms + Math.random() * clients.length * WAVE_MS_OF_A_CLIENT))
    await sendAfterSilences(balancer.port, 'ak_plain', inWaves, tally)
    const statuses = [...new Set(tally.other.map(({ status }) => status))].join(', ')
    console.log(
      `${name}: ${tally.accepted.length} of ${REQUESTS} accepted, ${tally.other.length} others (${statuses}), ${tally.lost} without an answer`,
    )
    expectEachStoredOnce(tally, nodes)
    expect(tally.accepted.length).toBe(REQUESTS)
  })

  test.concurrent('uses no connection that was silent for 8 s, though all clients are silent together', async ({
    onTestFinished,
  }) => {
    const [balancer, standIns] = await startBeforeStandIns(name, onTestFinished)
    const together = [0, 500, 6000, 8500, 9500]
    const silences = Array.from({ length: 40 }, () => together.map((ms) => ms + Math.random() * 50))
    const tally = await sendAfterSilences(balancer.port, 'ak_plain', silences)
    expect([tally.other, tally.lost]).toEqual([[], 0])
    const arrivals = standIns.flatMap((node) => node.arrivals)
    expect(arrivals.length).toBe(40 * together.length)
    const silentMs = arrivals.flatMap((arrival) => arrival.silentMs ?? [])
    expect(silentMs.length, 'connections are used again').toBeGreaterThan(0)
    expect(Math.max(...silentMs)).toBeLessThan(NODE_IDLE_MS)
  })

  test.concurrent('takes a body of 60 KB that comes at 5 KB/s, and a head whose second half is 12 s late', async ({
    onTestFinished,
  }) => {
    const balancer = await startBefore(name, nodes, onTestFinished)
    const slowBody = async (): Promise<Answer> => {
      const raw = await open(balancer.port, onTestFinished)
      const whole = rawPost(bodyOfSize('ak_plain', 60_000))
      for (let at = 0; at < whole.length; at += 500) {
        raw.write(whole.slice(at, at + 500))
        await sleep(PIECE_PAUSE_MS)
      }
      return answerOn(raw)
    }
    const lateHead = async (): Promise<Answer> => {
      const raw = await open(balancer.port, onTestFinished)
      const whole = rawPost(single('ak_plain'))
      raw.write(whole.slice(0, 30))
      await sleep(LATE_MS)
      raw.write(whole.slice(30))
      return answerOn(raw)
    }
    for (const answer of await Promise.all([slowBody(), lateHead()])) expectAccepted(answer, 1)
  })

  test.concurrent('asks no node before it has the whole request', async ({ onTestFinished }) => {
    const [balancer, standIns] = await startBeforeStandIns(name, onTestFinished)
    const raw = await open(balancer.port, onTestFinished)
    const whole = rawPost(bodyOfSize('ak_plain', MAX_BODY_BYTES))
    raw.write(whole.slice(0, -1))
    await sleep(TAKEN_MS)
    expect(standIns.map((node) => node.begun())).toEqual([0, 0])
    raw.write(whole.slice(-1))
    expect((await answerOn(raw)).status).toBe(202)
  })

  test.concurrent('shows no client that one of two nodes drains', async ({ onTestFinished }) => {
    const own = await startNodes(onTestFinished, { SLUICE_DRAIN_DELAY_SECONDS: '4' })
    const balancer = await startBefore(name, own, onTestFinished)
    const tally: Tally = { accepted: [], other: [], lost: 0 }
    const stop = new AbortController()
    const client = async (): Promise<void> => {
      let connection = null
      while (!stop.signal.aborted) {
        connection = await sendOne(connection ?? (await openRaw(balancer.port)), 'ak_plain', tally)
        await sleep(LEAST_PAUSE_MS + Math.random() * 100)
      }
      connection?.close()
    }
    const clients = Promise.all(Array.from({ length: 16 }, client))
    const served = (more: number): Promise<void> => {
      const until = tally.accepted.length + more
      return eventually(`${more} more are accepted`, () => tally.accepted.length >= until || tally.lost > 0)
    }
    await served(100)
    expect(readJournal(own[0].dataDir).length, 'the node that drains has its part').toBeGreaterThan(0)
    const exit = await own[0].stop()
    await served(100)
    stop.abort()
    await clients
    expect(exit.code, exit.output).toBe(0)
    expectEachStoredOnce(tally, own)
  })

  test.concurrent('sends again what has a key, and nothing else, when its connection breaks', async ({
    onTestFinished,
  }) => {
    const [balancer, standIns] = await startBeforeStandIns(name, onTestFinished)
    const tries = (): number => standIns.flatMap((node) => node.arrivals).length
    const keyed = { 'Idempotency-Key': randomUUID(), [BREAK]: 'keyed' }
    expect((await post(balancer, single('ak_plain'), keyed)).status).toBe(202)
    expect(tries()).toBe(2)
    // On a connection of its own: on one that was used before, HAProxy passes on to the client that it broke.
    const raw = await open(balancer.port, onTestFinished)
    raw.write(rawPost(single('ak_plain'), [`${BREAK}: unkeyed`]))
    expectComeAgain(await answerOn(raw))
    expect(tries()).toBe(3)
  })

  test.concurrent('passes on what client and node say to each other, and tells clients its own idle time', async ({
    onTestFinished,
  }) => {
    const [balancer, standIns] = await startBeforeStandIns(name, onTestFinished)
    const sent = {
      traceparent: `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`,
      'idempotency-key': randomUUID(),
      'content-type': 'application/json; charset=utf-8',
      'x-request-id': randomUUID(),
    }
    const headers = { ...sent, odd_name: 'a node on Node 20 would not answer' }
    const body = single('ak_plain')
    const answer = await post(balancer, body, headers)
    const [arrival] = standIns.flatMap((node) => node.arrivals)
    expect(arrival).toMatchObject({ headers: { ...sent, 'content-length': String(body.length) }, body })
    expect(arrival.headers).not.toHaveProperty('odd_name')
    expect(arrival.headers['x-forwarded-for']).toMatch(/^[\d.]+$/)
    expect(answer.headers).toMatchObject({ 'x-request-id': 'from-the-node', 'keep-alive': 'timeout=60' })
  })

  test.concurrent('leaves a body of more than 512 KB to the node, and refuses one of 2 MB like it', async ({
    onTestFinished,
  }) => {
    const balancer = await startBefore(name, nodes, onTestFinished)
    expectRefused(await post(balancer, bodyOfSize('ak_plain', MAX_BODY_BYTES + 1)), 413, 'payload_too_large')
    expectAccepted(await post(balancer, bodyOfSize('ak_plain', MAX_BODY_BYTES)), 1)
    const far = await post(balancer, bodyOfSize('ak_plain', 2_000_000))
    expect([far.status, far.json['error']]).toEqual([413, 'payload_too_large'])
  })

  test.concurrent('answers 503 in the words of a node where none can be reached', async ({ onTestFinished }) => {
    const [gone, another] = [await freePort(), await freePort()].map((port) => ({ port, adminPort: port }))
    const balancer = await startBefore(name, [gone, another], onTestFinished)
    expectComeAgain(await post(balancer, single('ak_plain')))
    expectComeAgain(await post(balancer, single('ak_plain'), { 'Idempotency-Key': randomUUID() }))
  })
})
