// A minute of the fuzzer (`npm run fuzz`), and what it must find where it is shown a fault. SLUICE_TEST_SEED repeats a run.
// How fast honest clients are served is measured by the fuzzer alone: no test here asserts on speed.

import { once } from 'node:events'
import { existsSync, readFileSync } from 'node:fs'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { parseAnswers, unsound } from '../../load/fuzz/answers.js'
import { type Played, play } from '../../load/fuzz/client.js'
import { OverloadTally } from '../../load/fuzz/overload.js'
import { fuzz } from '../../load/fuzz/run.js'
import { scriptOf } from '../../load/fuzz/script.js'
import { deserved } from '../../load/fuzz/verdict.js'
import { single } from '../support/client.ts'
import { makeFolder } from '../support/service.ts'
import { judge } from '../unit/decode/oracle.ts'

const MINUTES = 1
/** The other tests want a part of the machine. */
const CLIENTS = 8
const SEED = Number(process.env['SLUICE_TEST_SEED'] ?? Math.floor(Math.random() * 2 ** 31))

const folder = await makeFolder()

test(`a minute of hostile clients beside honest ones: nothing breaks (SLUICE_TEST_SEED=${SEED})`, {
  timeout: (MINUTES + 2) * 60_000,
}, async () => {
  console.log(`fuzz: SLUICE_TEST_SEED=${SEED}`)
  const report = await fuzz({ seed: SEED, minutes: MINUTES, node: process.execPath, folder, clients: CLIENTS })
  const scripts = join(folder, 'scripts')
  const bytes = report.faults
    .map(({ client }) => join(scripts, `client-${client}.hex`))
    .filter((file) => existsSync(file))
  expect(report.faults, bytes.map((file) => readFileSync(file, 'utf8').slice(0, 20_000)).join('\n')).toEqual([])
  expect(report.clients).toBeGreaterThan(100)
  expect(report.honest.requests).toBeGreaterThan(100)
  expect(report.heard[202]).toBeGreaterThan(0)
})

describe('the fuzzer itself', () => {
  const ground = { seed: SEED, nowMs: Date.now(), round: 0, splitsRequestLine: true }

  test('one seed gives one script to each client, another seed another', () => {
    const scripts = (seed: number): string[] =>
      Array.from({ length: 50 }, (_, client) => {
        const { kind, steps } = scriptOf({ ...ground, seed }, client)
        return `${kind} ${steps.map((step) => (step.do === 'write' ? step.bytes.toString('latin1') : step.do)).join()}`
      })
    expect(scripts(SEED).join() === scripts(SEED).join()).toBe(true)
    expect(scripts(SEED + 1).join() === scripts(SEED).join()).toBe(false)
  })

  test('a client that is repeated does the same in each round, and has keys of its own in each', () => {
    const written = (client: number, round: number): string => {
      const { steps } = scriptOf({ ...ground, round }, client)
      return steps.map((step) => (step.do === 'write' ? step.bytes.toString('latin1') : '')).join('')
    }
    const key = /Idempotency-Key: [0-9a-f]{8}-[0-9a-f-]{27}/i
    const client = Array.from({ length: 1000 }, (_, number) => number).find((number) => {
      return scriptOf(ground, number).kind === 'split' && key.test(written(number, 0))
    })
    if (client === undefined) throw new Error('no client of this seed has a key')
    const keys = [0, 1, 2].map((round) => written(client, round).match(key)?.[0].toLowerCase())
    expect(new Set(keys).size).toBe(3)
    const rest = [0, 1, 2].map((round) => written(client, round).replaceAll(new RegExp(key, 'gi'), ''))
    expect(new Set(rest).size).toBe(1)
  })

  test('what it says that a body deserves is what the decoders of the service say', () => {
    let bodies = 0
    for (let client = 0; client < 2000; client++) {
      const { expectation } = scriptOf(ground, client)
      if (expectation.hears !== 'judged' || expectation.encoding !== 'identity') continue
      bodies++
      const { validation } = judge(expectation.body, 17, ground.nowMs)
      const { status } = deserved(expectation.body, ground.nowMs)
      if (validation.kind === 'accepted') expect([202, 401]).toContain(status)
      else expect([400, 401]).toContain(status)
    }
    expect(bodies).toBeGreaterThan(100)
    expect(deserved(Buffer.from(single('ak_fuzz')), Date.now())).toEqual({ status: 202, error: null })
    expect(deserved(Buffer.from('{'), Date.now())).toEqual({ status: 400, error: 'invalid_json' })
    expect(deserved(Buffer.from(single('ak_other')), Date.now())).toEqual({ status: 401, error: 'invalid_app_key' })
  })

  /** What clients of one request find wrong with a service that has one answer. */
  async function playAgainst(answer: string): Promise<({ kind: string; isCompressed: boolean } & Played)[]> {
    const server = createServer((socket: Socket) => {
      socket.on('error', () => {}).once('data', () => socket.end(answer))
    })
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    const { port } = server.address() as AddressInfo
    const found = []
    try {
      for (let client = 0; client < 300; client++) {
        const script = scriptOf(ground, client)
        const { kind, expectation } = script
        const isOne = expectation.hears === 'each' && expectation.answers.length === 1
        if (kind !== 'harmed body' && !(kind === 'split' && isOne)) continue
        const isCompressed = expectation.hears === 'each' && expectation.answers[0].orBusy === true
        found.push({ kind, isCompressed, ...(await play(script, { port, adminPort: port })) })
      }
    } finally {
      server.close()
    }
    return found
  }

  /** With the end of this minute. */
  const soundHead = () =>
    `Content-Type: application/json\r\nX-RateLimit-Limit: 1\r\nX-RateLimit-Remaining: 1\r\nX-RateLimit-Reset: ${Math.ceil((Date.now() + 1) / 60_000) * 60}\r\n`
  const BATCH = 'X-Batch-Id: 01a2045c-40b7-7478-89d0-d48af2839fc1\r\n'
  const accepted = (headers: string, body = '{"status":"accepted","events":1}') =>
    `HTTP/1.1 202 Accepted\r\n${headers}Content-Length: ${body.length}\r\n\r\n${body}`
  const WRONG: Readonly<Record<string, () => string>> = {
    'a header missing': () => accepted('Content-Type: application/json\r\n'),
    'no batch id': () => accepted(soundHead()),
    'a body that is not JSON': () => accepted(soundHead() + BATCH, '{"status":'),
    'a 500': () =>
      accepted(soundHead(), '{"error":"a","message":"b"}').replace('202 Accepted', '500 Internal Server Error'),
    'a 503 that does not say when': () =>
      accepted(soundHead(), '{"error":"a","message":"b"}').replace('202 Accepted', '503 Service Unavailable'),
  }
  for (const [claim, text] of Object.entries(WRONG)) {
    test(`an answer with ${claim} is found out`, () => {
      const about = { ended: true, mayHead: false }
      expect(
        parseAnswers(Buffer.from(accepted(soundHead() + BATCH)), about).answers.map((answer) => unsound(answer, about)),
      ).toEqual([null])
      const { answers } = parseAnswers(Buffer.from(text()), about)
      expect(answers.map((answer) => unsound(answer, about))).not.toEqual([null])
    })
  }

  test('a 503 is right for a harmed body or a compressed one, where the service says that it waited too long', async () => {
    const body = '{"error":"service_overloaded","message":"later"}'
    const overloaded = `HTTP/1.1 503 Service Unavailable\r\n${soundHead()}Retry-After: 1\r\nContent-Length: ${body.length}\r\n\r\n${body}`
    const heard = await playAgainst(overloaded)
    const harmed = heard.filter(({ kind }) => kind === 'harmed body')
    const sound = heard.filter(({ kind }) => kind === 'split')
    expect([harmed.length > 0, sound.length > 0]).toEqual([true, true])
    expect(harmed.filter(({ fault }) => fault !== null)).toEqual([])
    expect(new Set(sound.map(({ isCompressed }) => isCompressed))).toEqual(new Set([true, false]))
    for (const { fault, isCompressed } of sound) expect(fault === null).toBe(isCompressed)

    const [{ answers }] = harmed
    const tallyOf = (bodies: number, refused: number): OverloadTally => {
      const tally = new OverloadTally()
      for (let body = 0; body < bodies; body++) tally.add(body < refused ? answers : [])
      return tally
    }
    expect(tallyOf(1000, 10).fault(12)).toBe(null)
    expect(tallyOf(20, 6).fault(6)).toBe(null)
    expect(tallyOf(1000, 11).fault(12)).toContain('11 of 1000')
    expect(tallyOf(20, 7).fault(7)).toContain('7 of 20')
    expect(tallyOf(1000, 1).fault(0)).toContain('only 0')
  })

  test('a service that accepts whatever comes is found out, and so is one that repeats what was sent', async () => {
    const faults = new Set<string>()
    for (const body of [
      accepted(soundHead() + BATCH),
      accepted(soundHead() + BATCH, '{"status":"accepted","events":1,"x":"zq7mark"}'),
    ]) {
      for (const { fault } of await playAgainst(body)) {
        if (fault !== null)
          faults.add(fault.includes('repeats') ? 'repeats' : fault.includes('is right') ? 'accepts' : 'others')
      }
    }
    expect([...faults]).toEqual(expect.arrayContaining(['accepts', 'repeats']))
  })
})
