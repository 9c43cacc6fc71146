import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { App } from '../../../src/apps/app.ts'
import type { Charge } from '../../../src/contract/charge.ts'
import { batchIdOf } from '../../../src/contract/ids.ts'
import type { OverloadReason } from '../../../src/contract/outcome.ts'
import { createDecoder } from '../../../src/decode/decoder.ts'
import { HttpExchange } from '../../../src/http/exchange.ts'
import { Turn } from '../../../src/http/turn.ts'
import type { Wire } from '../../../src/http/wire.ts'
import { Activity } from '../../../src/inspect/activity/activity.ts'
import { EventTaps } from '../../../src/inspect/live/event-tap.ts'
import { createIsoTime } from '../../../src/lib/clock.ts'
import { type Admitted, type End, KEYS_FULL, type Replay } from '../../../src/limits/admission.ts'
import type { Histogram } from '../../../src/observe/histogram.ts'
import { createMetrics } from '../../../src/observe/metrics.ts'
import type { QueueAck, QueueRecord, QueueRefusal } from '../../../src/queue/queue.ts'
import type { RequestHead } from '../../../src/request/head.ts'
import type { Inflated } from '../../../src/request/inflate.ts'
import { Ingest } from '../../../src/request/ingest.ts'
import { SLOT_WORDS, STATE, WORD } from '../../../src/ring/layout.ts'
import { Ring } from '../../../src/ring/ring.ts'
import { decodeWith } from '../../support/decode.ts'
import { storedBytes } from '../../support/stored-bytes.ts'
import { ManualTimers } from '../../support/timers.ts'

const NOW_MS = Date.parse('2026-11-20T12:00:00Z')
const KEY = '6a2f41a3-c54c-4c1f-9d6b-0d4f6d2f8a11'

const app: App = {
  appKey: 'ak_1',
  previousKeys: [],
  readKeys: [],
  appId: 'one',
  name: null,
  plan: '5m',
  subscription: 'active',
  trialEndsAtMs: null,
  billingAnchorMs: null,
  eventsPerMinute: 1000,
  eventsPerDay: null,
  eventsPerMonth: 100_000,
  bytesPerMinute: 2 * 1024 * 1024,
  alertSteps: [],
  origins: null,
}

const event = {
  type: 'track',
  name: 'opened',
  hashed_daily_id: 'd'.repeat(16),
  hashed_monthly_id: 'm'.repeat(16),
  session_id: 's',
  timestamp: '2026-11-20T11:59:00Z',
  context: { os: 'iOS' },
}
const goodBody = JSON.stringify({ app_key: 'ak_1', events: [event, event] })

/** A reason stands for all others that mean that nothing is stored. */
type QueueAnswer = Extract<QueueAck, 'durable' | 'duplicate' | 'in_doubt' | 'nats_away'>

/** How the stages behave; `later` makes one answer by a promise. */
interface Behaviour {
  readonly find: 'app' | 'unknown' | 'unavailable' | 'throw'
  readonly admit: Admitted['kind'] | 'throw' | 'later' | 'reject'
  readonly replayOf: 'none' | 'replay' | 'throw' | 'later' | 'reject'
  readonly publish: QueueAnswer | 'throw' | 'never'
  /** The functions that throw. */
  readonly broken: 'end' | 'view' | 'nearLimits' | 'fill' | 'send' | null
  readonly decode: 'ok' | 'fail' | 'busy'
  /** no: the body has no encoding. */
  readonly inflate: 'no' | 'ok' | 'later' | 'throw' | 'reject' | 'too large' | 'corrupt' | 'busy'
  /** evicted: the body gives way to others while it arrives. */
  readonly arrives: 'whole' | 'evicted'
  readonly keyed: boolean
  readonly body: string
}

const fine: Behaviour = {
  find: 'app',
  admit: 'taken',
  replayOf: 'none',
  publish: 'durable',
  broken: null,
  decode: 'ok',
  inflate: 'no',
  arrives: 'whole',
  keyed: false,
  body: goodBody,
}

interface Ended {
  readonly charge: Charge
  readonly batchId: string | null
  readonly end: End
  readonly events: number
}

const END_OF_PUBLISH: Readonly<Record<Exclude<Behaviour['publish'], 'never'>, End>> = {
  durable: 'stored',
  duplicate: 'duplicate',
  in_doubt: 'unknown',
  nats_away: 'refused',
  throw: 'refused',
}

/** An ingest with a real ring and decoder, and stores that behave as `behaviour` says. */
class Stage {
  behaviour: Behaviour = fine
  /** The time of the next charge. */
  takenAtMs = NOW_MS
  retryAfterSeconds = 2
  refusalOfNew: QueueRefusal | null = null
  /** Every charge, and every end that the admission got. */
  readonly charges: Charge[] = []
  readonly ends: Ended[] = []
  readonly ring = new Ring(4 * 1024 * 1024)
  readonly metrics = createMetrics({ version: 'test', runtime: false })
  /** Called before an answer is written. */
  onAnswer = () => {}
  readonly activity = new Activity(
    new EventTaps({ node: 'n', timers: new ManualTimers(), onFault: (error) => this.faults.push(error) }),
  )
  /** Of the body that a replay's key was accepted with. */
  acceptedHash: number | undefined
  endedHash: number | undefined
  /** What the pool makes of a keyed body. */
  eventsHash = 0
  readonly faults: unknown[] = []
  /** Stage and request id of each fault. */
  readonly faultPlaces: unknown[] = []
  readonly lines: string[] = []
  readonly published: Charge[] = []
  storedEvents: number | undefined
  readonly bytes = storedBytes(() => NOW_MS)
  readonly ingest: Ingest
  #ids = 0
  readonly #decoder = createDecoder('scanner', this.ring.memory.bytes)

  constructor() {
    const fill = this.ring.fill.bind(this.ring)
    this.ring.fill = (slot, pieces) => {
      this.#breakIf('fill')
      fill(slot, pieces)
    }
    this.ingest = new Ingest(
      {
        ring: this.ring,
        inflater: {
          inflate: (_encoding, body) =>
            answer<Inflated>(this.behaviour.inflate, body, (kind) => (kind === 'ok' ? body : (kind as Inflated))),
        },
        metrics: this.metrics,
        observer: this.activity,
        turn: { nowMs: () => NOW_MS, monotonicMs: () => performance.now() },
        monotonicMs: () => performance.now(),
        isoTime: createIsoTime(),
        freshId: () => `0190a1b2-0000-7000-8000-${String((this.#ids += 1)).padStart(12, '0')}`,
        onFault: (error, ...where) => {
          this.faults.push(error)
          this.faultPlaces.push(where)
        },
        apps: {
          find: () => {
            const { find } = this.behaviour
            if (find === 'throw') throw new Error('a store broke')
            return find === 'app' ? app : find
          },
          all: () => [app],
          stop: () => {},
        },
        admission: {
          admit: (_app, events, _batchId, refusal) => {
            if (refusal) return { kind: 'overloaded', reason: refusal }
            const charge = { events, takenAtMs: this.takenAtMs, minute: 7, cycleMinute: 0 }
            const taken: Admitted = { kind: 'taken', charge }
            const admitted = answer<Admitted>(this.behaviour.admit, taken, (kind) => {
              if (kind === 'replay') return { kind, events: 7, eventsHash: this.acceptedHash }
              if (kind === 'overloaded') return KEYS_FULL
              if (kind === 'taken') return taken
              const { retryAfterSeconds } = this
              return { kind: 'over limit', refusal: 'monthly_limit_exceeded', retryAfterSeconds }
            })
            if (this.behaviour.admit === 'taken' || this.behaviour.admit === 'later') this.charges.push(charge)
            return admitted
          },
          replayOf: () => {
            return answer<Replay | null>(this.behaviour.replayOf, null, (kind) => {
              return kind === 'replay' ? { kind, events: 7, eventsHash: this.acceptedHash } : null
            })
          },
          end: (_app, charge, batchId, end, events, eventsHash) => {
            this.ends.push({ charge, batchId, end, events })
            this.endedHash = eventsHash
            this.#breakIf('end')
          },
          view: () => {
            this.#breakIf('view')
            return { limit: 1000, remaining: 999, resetUnixSeconds: 1 }
          },
          nearLimits: () => {
            this.#breakIf('nearLimits')
            return null
          },
          days: () => [],
          usages: () => {
            const window = { limit: 1, used: 1, endsAtMs: NOW_MS + 1500 }
            return [{ atMs: NOW_MS, minute: window, day: window, month: window }]
          },
        },
        bytes: this.bytes,
        queue: {
          refusalOfNew: () => this.refusalOfNew,
          publish: (record: QueueRecord, onAck) => {
            const { publish } = this.behaviour
            if (publish === 'throw') throw new Error('the queue broke')
            this.lines.push(Buffer.from(record.line).toString())
            this.published.push(record.charge)
            if (publish !== 'never') queueMicrotask(() => onAck(publish, this.storedEvents))
          },
        },
      },
      (slot) => queueMicrotask(() => this.#decode(slot)),
    )
  }

  #breakIf(part: Behaviour['broken']): void {
    if (this.behaviour.broken === part) throw new Error(`${part} broke`)
  }

  #decode(slot: number): void {
    if (this.behaviour.decode === 'busy') return this.ingest.decodeBusy(slot)
    if (this.behaviour.decode === 'fail') return this.ingest.decodeFailed(slot, new Error('the thread died'))
    const start = this.ring.offset(slot)
    const { words } = this.ring
    if (words[slot * SLOT_WORDS + WORD.KEYED] === 1) words[slot * SLOT_WORDS + WORD.EVENTS_HASH] = this.eventsHash
    const validation = decodeWith(
      this.#decoder,
      start,
      start + this.ring.length(slot),
      NOW_MS,
      words,
      this.ring.decodedAt(slot),
    )
    Atomics.store(words, slot * SLOT_WORDS + WORD.STATE, STATE.DECODED)
    this.ingest.decoded(slot, validation)
  }

  /** Sends one request, and resolves when it must have ended. */
  async request(
    behaviour: Partial<Behaviour> = {},
    head: Partial<RequestHead> = {},
    meanwhile: (exchange: HttpExchange) => void = () => {},
    startedAtMs = performance.now(),
  ): Promise<Sent> {
    this.behaviour = { ...fine, ...behaviour }
    const sent: Sent = { answers: 0, status: '', headers: '', body: '', closed: false }
    const body = Buffer.from(this.behaviour.body)
    const exchange = new HttpExchange(
      {
        method: 'POST',
        path: '/api/v1/events',
        contentType: 'application/json',
        contentEncoding: this.behaviour.inflate === 'no' ? null : 'gzip',
        idempotencyKey: this.behaviour.keyed ? KEY : null,
        traceparent: null,
        contentLengthBytes: body.length,
        framingFault: null,
        wantsClose: false,
        corsHeaders: '',
        origin: null,
        foreignOrigin: null,
        ...head,
      },
      wireInto(sent, () => {
        this.onAnswer()
        this.#breakIf('send')
      }),
      { turn: new Turn(() => {}), onClosed: () => {} },
      startedAtMs,
    )
    if (this.ingest.begin(exchange)) {
      if (this.behaviour.arrives === 'evicted') this.ingest.bodyEvicted(exchange)
      else this.ingest.body(exchange, [body.subarray(0, 5), body.subarray(5)], body.length)
    }
    meanwhile(exchange)
    for (let turn = 0; turn < 5; turn++) await new Promise((resolve) => setImmediate(resolve))
    return sent
  }

  get outcomes(): number {
    return Object.values(this.metrics.outcomeTotals()).reduce((sum, count) => sum + count, 0)
  }
}

function countOf({ counts }: Histogram): number {
  return counts.reduce((sum, count) => sum + count, 0)
}

function answer<T>(kind: string, plain: T, named: (kind: string) => T): T | Promise<T> {
  if (kind === 'throw') throw new Error('a store broke')
  if (kind === 'reject') return Promise.reject(new Error('a store broke later'))
  if (kind === 'later') return Promise.resolve(plain)
  return named(kind)
}

interface Sent {
  answers: number
  status: string
  headers: string
  body: string
  closed: boolean
}

function wireInto(sent: Sent, beforeSend: () => void): Wire {
  const send: Wire['send'] = ({ status, headers, body, thenClose }) => {
    beforeSend()
    Object.assign(sent, { status, headers, body, closed: thenClose, answers: sent.answers + 1 })
    return true
  }
  const nothing = (): void => {}
  return { onAborted: nothing, onData: nothing, send, giveMoreTime: nothing, close: nothing }
}

/** Those that were counted. */
function overloadsOf({ metrics }: Stage): Record<string, number> {
  return Object.fromEntries(Object.entries(metrics.overloadedTotals()).filter(([, count]) => count > 0))
}

/** The same answer, whatever the reason. */
function expectPlain503({ status, headers, body }: Sent): void {
  expect(status).toBe('503 Service Unavailable')
  expect(headers.replaceAll(/: [^\r]*/g, '')).not.toMatch(/reason/i)
  expect(JSON.parse(body)).toEqual({
    error: 'service_overloaded',
    message: 'the service cannot take this batch now; keep it and try again later',
  })
}

describe('the path of a request', () => {
  it('ends in exactly one outcome and leaks nothing, whichever stage fails, throws or answers late', async () => {
    const behaviour = fc.record<Behaviour>({
      find: fc.constantFrom('app', 'app', 'app', 'unknown', 'unavailable', 'throw'),
      admit: fc.constantFrom('taken', 'taken', 'replay', 'over limit', 'overloaded', 'throw', 'later', 'reject'),
      replayOf: fc.constantFrom('none', 'replay', 'throw', 'later', 'reject'),
      publish: fc.constantFrom('durable', 'durable', 'duplicate', 'nats_away', 'in_doubt', 'throw'),
      broken: fc.constantFrom(null, null, null, 'end', 'view', 'nearLimits', 'fill'),
      decode: fc.constantFrom('ok', 'ok', 'ok', 'fail', 'busy'),
      inflate: fc.constantFrom('no', 'no', 'no', 'ok', 'later', 'throw', 'reject', 'too large', 'corrupt', 'busy'),
      arrives: fc.constantFrom('whole', 'whole', 'whole', 'evicted'),
      keyed: fc.boolean(),
      body: fc.constantFrom(
        goodBody,
        goodBody,
        '{"app_key":"ak_1"}',
        '{"app_key":1}',
        '{',
        '{"app_key":"ak_1","events":[]}',
      ),
    })
    await fc.assert(
      fc.asyncProperty(fc.array(behaviour, { minLength: 1, maxLength: 12 }), async (requests) => {
        const stage = new Stage()
        let overloaded = 0
        for (const request of requests) {
          const sent = await stage.request(request)
          expect(sent.answers).toBe(1)
          if (sent.status.startsWith('503')) overloaded += 1
          expect(Object.values(stage.metrics.overloadedTotals()).reduce((sum, count) => sum + count)).toBe(overloaded)
          expect(stage.ingest.inFlight).toBe(0)
          expect(stage.metrics.requestsReceived).toBe(stage.outcomes)
          expect([stage.ring.requests, stage.ring.usedBytes]).toEqual([0, 0])
          // Whatever threw: each admitted batch ends once, with its own charge.
          expect(stage.ends.map(({ charge }) => charge)).toEqual(stage.charges)
          for (const { charge, batchId, end, events } of stage.ends) {
            expect(batchId).toBe(request.keyed ? batchIdOf('one', KEY) : null)
            const isQueued = charge.events > 0 && request.publish !== 'never'
            expect(end).toBe(isQueued ? END_OF_PUBLISH[request.publish as QueueAnswer] : 'stored')
            expect(events).toBe(end === 'stored' || end === 'duplicate' ? charge.events : 0)
          }
          stage.charges.length = 0
          stage.ends.length = 0
        }
      }),
      { numRuns: 150 },
    )
  })

  it('counts an incomplete request as in flight', async () => {
    const stage = new Stage()
    await stage.request({ publish: 'never' })
    expect(stage.ingest.inFlight).toBe(1)
    expect(stage.metrics.requestsReceived).toBe(stage.outcomes + 1)
    expect(stage.ring.requests).toBe(1)
  })

  it('measures an answer from the last byte of the body, so that a slow upload is no slow answer', async () => {
    const stage = new Stage()
    const { requestSeconds, answerSeconds, stageSeconds } = stage.metrics
    const uploadedForSeconds = 60
    await stage.request({}, {}, () => {}, performance.now() - uploadedForSeconds * 1000)
    expect(stageSeconds.receive.sum).toBeGreaterThan(uploadedForSeconds - 1)
    expect(requestSeconds.sum - answerSeconds.sum).toBeCloseTo(stageSeconds.receive.sum, 9)
    expect(countOf(answerSeconds)).toBe(1)
  })

  it('counts no answer as measured from the body where the body was not waited for', async () => {
    const stage = new Stage()
    await stage.request({}, { path: '/nowhere' })
    expect([countOf(stage.metrics.requestSeconds), countOf(stage.metrics.answerSeconds)]).toEqual([1, 0])
  })

  it('answers a bug with 503 and Retry-After, and reports it once', async () => {
    const stage = new Stage()
    const sent = await stage.request({ publish: 'throw', keyed: true })
    expect(sent.status).toBe('503 Service Unavailable')
    expect(sent.headers).toMatch(/\r\nRetry-After: [1-5]\r\n/)
    expect(stage.faults).toHaveLength(1)
    expect(stage.ends).toMatchObject([{ end: 'refused', batchId: batchIdOf('one', KEY) }])
  })

  it.each([
    ['a decoder that throws', { inflate: 'throw' }],
    ['a decoder that fails later', { inflate: 'reject' }],
    ['a ring that throws behind a decoder', { inflate: 'ok', broken: 'fill' }],
    ['a ring that throws behind a decoder that took its time', { inflate: 'later', broken: 'fill' }],
    ['a ring that throws', { broken: 'fill' }],
  ] as const)('answers one request 503 for %s, counts it once, and serves the next', async (_, behaviour) => {
    const stage = new Stage()
    const sent = await stage.request(behaviour)
    expect([sent.answers, sent.status]).toEqual([1, '503 Service Unavailable'])
    expect(stage.faults).toHaveLength(1)
    expect([stage.ingest.inFlight, stage.metrics.requestsReceived, stage.outcomes]).toEqual([0, 1, 1])
    expect([stage.ring.requests, stage.ring.usedBytes]).toEqual([0, 0])
    expect((await stage.request({ inflate: 'ok' })).status).toBe('202 Accepted')
  })

  it('answers that the decoders are busy before the call with the body returns', async () => {
    const stage = new Stage()
    const sending = stage.request({ inflate: 'busy' })
    expect(stage.outcomes).toBe(1)
    expect((await sending).status).toBe('503 Service Unavailable')
  })

  it('counts a request once whose client left before its decoder failed', async () => {
    const stage = new Stage()
    await stage.request({ inflate: 'reject' }, {}, (exchange) => exchange.abandon())
    expect([stage.ingest.inFlight, stage.metrics.requestsReceived, stage.outcomes]).toEqual([0, 1, 1])
  })

  describe('the bytes of the minute', () => {
    const bodyOf = (padding: number, more = '') =>
      `{"app_key":"ak_1"${more},"events":[${JSON.stringify({ ...event, x: 'y'.repeat(padding) })}]}`
    const used = (stage: Stage): number => 2 * 1024 * 1024 - (stage.bytes.window(app, true)?.remaining ?? Number.NaN)
    const fill = (stage: Stage): boolean => stage.bytes.take(app, 2 * 1024 * 1024 - used(stage))

    it.each([
      ['', null],
      [',"sdk_version":"1.2.3"', null],
      [',"sdk_version":"ä\\u0041"', null],
      [',"extra":{"ü":[1, 2]},"other":"€"', null],
      [`,"sdk_version":"${'v'.repeat(300)}"`, '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'],
    ])('are those of the line as it is stored, with %s', async (more, traceparent) => {
      const stage = new Stage()
      await stage.request({ body: bodyOf(100, more) }, { traceparent })
      expect(stage.lines).toHaveLength(1)
      expect(used(stage)).toBe(Buffer.byteLength(stage.lines[0]))
      expect(stage.metrics.storedBytes).toBe(used(stage))
      const { apps } = await stage.bytes.read('one', 1)
      expect(apps[0][1].lastHour).toBe(used(stage))
    })

    it.each([
      { publish: 'durable', isKept: true },
      { publish: 'in_doubt', isKept: true },
      { publish: 'duplicate', isKept: false },
      { publish: 'nats_away', isKept: false },
      { publish: 'throw', isKept: false },
      { admit: 'replay', isKept: false },
      { admit: 'over limit', isKept: false },
      { admit: 'overloaded', isKept: false },
      { admit: 'throw', isKept: false },
      { admit: 'reject', isKept: false },
    ] as const)('are given back where the batch is surely not stored: %j', async ({ isKept, ...behaviour }) => {
      const stage = new Stage()
      await stage.request({ ...behaviour, keyed: true })
      expect(used(stage) > 0).toBe(isKept)
      expect(stage.metrics.storedBytes).toBe(used(stage))
    })

    it('are not asked of an empty batch, which is not stored', async () => {
      const stage = new Stage()
      fill(stage)
      expect((await stage.request({ body: '{"app_key":"ak_1","events":[]}' })).status).toBe('202 Accepted')
    })

    it.each([false, true])('that are used up refuse a batch, and nothing is taken (keyed: %s)', async (keyed) => {
      const stage = new Stage()
      fill(stage)
      const sent = await stage.request({ keyed })
      expect(sent.status).toBe('429 Too Many Requests')
      expect(JSON.parse(sent.body)).toEqual({
        error: 'rate_limit_exceeded',
        message: "the app's bytes for this minute are used up: the batch does not fit into what is left of them",
        reason: 'bytes',
      })
      expect(sent.headers).toContain('RateLimit: "bytes";r=0;t=60;qu="content-bytes"')
      expect(sent.headers).toContain('RateLimit-Policy: "bytes";q=2097152;qu="content-bytes";w=60')
      expect(sent.headers).toContain('Retry-After: 60')
      expect([stage.charges, stage.lines, stage.ends]).toEqual([[], [], []])
      expect(stage.metrics.outcomeTotals().rate_limit_exceeded).toBe(1)
      expect(stage.activity.refusals.newest()).toMatchObject([{ code: 'rate_limit_exceeded', reason: 'bytes' }])
    })

    it.each(['replay', 'later'] as const)('that are used up leave a replay a replay (%s)', async (replayOf) => {
      const stage = new Stage()
      fill(stage)
      const sent = await stage.request({ keyed: true, replayOf })
      expect(sent.status).toBe(replayOf === 'replay' ? '202 Accepted' : '429 Too Many Requests')
      expect(stage.charges).toEqual([])
    })

    it('are shown with an answer once less than a fifth is left, to pages too', async () => {
      const stage = new Stage()
      expect((await stage.request()).headers).not.toContain('RateLimit:')
      stage.bytes.take(app, 1_800_000)
      expect((await stage.request({}, { origin: 'https://a.example' })).headers).toMatch(/RateLimit: "bytes";r=\d{6};/)
    })
  })

  it.each(['view', 'nearLimits'] as const)(
    'answers 202 for a stored batch even where %s of the limits fails',
    async (broken) => {
      const stage = new Stage()
      const sent = await stage.request({ broken })
      expect([sent.status, sent.answers, stage.faults.length]).toEqual(['202 Accepted', 1, 1])
    },
  )

  it.each(['no', 'ok', 'later', 'corrupt'] as const)(
    'counts a request once whose answer cannot be sent (decoding: %s)',
    async (inflate) => {
      const stage = new Stage()
      await stage.request({ broken: 'send', inflate })
      expect(stage.faults).toHaveLength(1)
      expect([stage.ingest.inFlight, stage.metrics.requestsReceived, stage.outcomes]).toEqual([0, 1, 1])
      expect([stage.ring.requests, stage.ring.usedBytes]).toEqual([0, 0])
    },
  )

  it('ends a charge once, even where the admission throws', async () => {
    const stage = new Stage()
    const sent = await stage.request({ broken: 'end', keyed: true })
    expect(stage.ends).toMatchObject([{ end: 'stored', events: 2 }])
    expect([sent.answers, stage.faults.length]).toEqual([1, 1])
  })

  it('looks up the key of an invalid body, and admits nothing of it', async () => {
    const stage = new Stage()
    const invalid = '{"app_key":"ak_1","events":[{}]}'
    const replayed = await stage.request({ keyed: true, body: invalid, replayOf: 'replay' })
    expect(JSON.parse(replayed.body)).toEqual({ status: 'accepted', events: 7, deduplicated: true })
    expect((await stage.request({ keyed: true, body: invalid })).status).toBe('400 Bad Request')
    expect((await stage.request({ body: invalid, replayOf: 'replay' })).status).toBe('400 Bad Request')
    expect([stage.charges, stage.ends]).toEqual([[], []])
  })

  it('spreads Retry-After of 503s over 1 to 5 seconds', async () => {
    const stage = new Stage()
    const waits = new Set<string>()
    for (let n = 0; n < 100; n++) {
      waits.add(/Retry-After: (\d)/.exec((await stage.request({ publish: 'nats_away' })).headers)?.[1] ?? '')
    }
    expect([...waits].toSorted()).toEqual(['1', '2', '3', '4', '5'])
    expect(stage.metrics.overloadedTotals().nats_away).toBe(100)
  })

  it('treats a duplicate acknowledgement as a replay without cost', async () => {
    const stage = new Stage()
    const sent = await stage.request({ publish: 'duplicate', keyed: true })
    expect(JSON.parse(sent.body)).toEqual({ status: 'accepted', events: 2, deduplicated: true })
    expect(stage.ends).toMatchObject([{ end: 'duplicate', events: 2 }])
  })

  it('refuses a batch that may be stored, and keeps it counted in the limits', async () => {
    const stage = new Stage()
    const sent = await stage.request({ publish: 'in_doubt', keyed: true })
    expect(sent.status).toBe('503 Service Unavailable')
    expect(stage.ends).toMatchObject([{ end: 'unknown', events: 0 }])
    expect(stage.metrics.overloadedTotals().in_doubt).toBe(1)
  })

  it('replays the number of stored events, where the queue knows it', async () => {
    const stage = new Stage()
    stage.storedEvents = 7
    const sent = await stage.request({ publish: 'duplicate', keyed: true })
    expect(JSON.parse(sent.body).events).toBe(7)
    expect(stage.ends).toMatchObject([{ end: 'duplicate', events: 7 }])
  })

  it('sends one line with every event to the queue, as sent', async () => {
    const stage = new Stage()
    await stage.request()
    expect(stage.lines).toHaveLength(1)
    expect(JSON.parse(stage.lines[0])).toMatchObject({ v: 1, app_id: 'one', events: [event, event] })
  })

  it('counts the events of a stored batch for its app, and of no other batch, and shows it to who watches', async () => {
    const stage = new Stage()
    const seen: unknown[] = []
    stage.activity.taps.onStored = ({ line, app: { appId }, track, screen, revenue }) => {
      seen.push([Buffer.from(line).toString(), appId, [track, screen, revenue]])
    }
    await stage.request({})
    expect(seen).toEqual([[stage.lines[0], 'one', [2, 0, 0]]])
    await stage.request({ publish: 'duplicate' })
    await stage.request({ publish: 'nats_away' })
    await stage.request({ body: '{"app_key":"ak_1","events":[]}' })
    expect(seen).toHaveLength(1)
    expect([...stage.activity.accepted.all(NOW_MS)]).toEqual([['one', 2, [2, 0]]])
  })

  it('answers before it shows the batch to who watches, and then frees its slot', async () => {
    const stage = new Stage()
    const order: string[] = []
    stage.onAnswer = () => order.push('answered')
    stage.activity.taps.onStored = () => order.push(stage.ring.requests === 1 ? 'shown from the slot' : 'shown')
    await stage.request()
    expect(order).toEqual(['answered', 'shown from the slot'])
    expect(stage.ring.requests).toBe(0)
  })

  it('frees the slot of a batch although the answer or the showing of it throws', async () => {
    const stage = new Stage()
    stage.activity.taps.onStored = () => {
      throw new Error('the tap broke')
    }
    expect((await stage.request()).status).toBe('202 Accepted')
    await stage.request({ broken: 'send' })
    expect(stage.faults).toHaveLength(3)
    expect([stage.ring.requests, stage.outcomes]).toEqual([0, 2])
  })

  it('admits an empty batch, and queues nothing for it', async () => {
    const stage = new Stage()
    const sent = await stage.request({ body: '{"app_key":"ak_1","events":[]}' })
    expect(JSON.parse(sent.body)).toEqual({ status: 'accepted', events: 0 })
    expect(stage.lines).toEqual([])
    expect(stage.ends).toMatchObject([{ end: 'stored', events: 0 }])
  })

  it('asks the limits alone where the queue refuses what is new, but takes an empty batch, which it needs not', async () => {
    const stage = new Stage()
    stage.refusalOfNew = 'nats_away'
    expectPlain503(await stage.request())
    expect(overloadsOf(stage)).toEqual({ nats_away: 1 })
    expect((await stage.request({ body: '{"app_key":"ak_1","events":[]}' })).status).toBe('202 Accepted')
    expect((await stage.request({ body: '{"app_key":"ak_1"}' })).status).toBe('400 Bad Request')
    expect([stage.lines, stage.charges.length, stage.ends.length]).toEqual([[], 1, 1])
  })

  it.each<[OverloadReason, Partial<Behaviour>]>([
    ['apps_unread', { find: 'unavailable' }],
    ['fault', { find: 'throw' }],
    ['fault', { decode: 'fail' }],
    ['fault', { inflate: 'reject' }],
    ['fault', { broken: 'end', publish: 'nats_away' }],
    ['explain_busy', { decode: 'busy' }],
    ['inflate_busy', { inflate: 'busy' }],
    ['keys_full', { admit: 'overloaded' }],
    ['nats_away', { publish: 'nats_away' }],
    ['in_doubt', { publish: 'in_doubt' }],
  ])('counts %s where the stages do %j, and tells the client nothing of it', async (reason, behaviour) => {
    const stage = new Stage()
    const sent = await stage.request(behaviour)
    expect(overloadsOf(stage)).toEqual({ [reason]: 1 })
    expectPlain503(sent)
  })

  it.each<[string, Partial<Behaviour>]>([
    ['receive', { broken: 'fill' }],
    ['receive', { inflate: 'reject' }],
    ['parse', { decode: 'fail' }],
    ['admit', { find: 'throw' }],
    ['publish', { publish: 'throw' }],
  ])('names the stage of a bug (%s), and the id that its client got', async (name, behaviour) => {
    const stage = new Stage()
    const sent = await stage.request(behaviour)
    const requestId = /X-Request-Id: (\S+)/.exec(sent.headers)?.[1]
    expect(requestId).toMatch(/^0190a1b2-/)
    expect(stage.faultPlaces).toEqual([[name, requestId]])
    expect(stage.activity.refusals.newest()).toMatchObject([{ request_id: requestId, reason: 'fault' }])
  })

  it('counts ring_full where the head or the body finds no room, and evicted where it gave way to others', async () => {
    const stage = new Stage()
    const body = goodBody.padEnd(500_000)
    const requests = Array.from({ length: 9 }, () => stage.request({ publish: 'never', body }))
    const sent = await Promise.all(requests)
    const refused = sent.filter(({ answers }) => answers > 0)
    expect(refused.length).toBeGreaterThan(0)
    expect(overloadsOf(stage)).toEqual({ ring_full: refused.length })
    // Only its end says how long it is.
    const chunked = await stage.request({ body }, { contentLengthBytes: null })
    expect(overloadsOf(stage)).toEqual({ ring_full: refused.length + 1 })
    const evicted = await stage.request({ arrives: 'evicted' })
    expect(overloadsOf(stage)).toEqual({ ring_full: refused.length + 1, evicted: 1 })
    for (const each of [...refused, chunked, evicted]) expectPlain503(each)
  })

  it('answers 503 where the app store is unavailable: only an unknown key is a 401', async () => {
    const stage = new Stage()
    expect((await stage.request({ find: 'unavailable' })).status).toBe('503 Service Unavailable')
    expect((await stage.request({ find: 'unknown' })).status).toBe('401 Unauthorized')
  })

  it('first refuses a body with an ambiguous end, and closes the connection', async () => {
    const stage = new Stage()
    const sent = await stage.request({}, { framingFault: 'Content-Length: must appear once', path: '/elsewhere' })
    expect([sent.status, sent.closed]).toEqual(['400 Bad Request', true])
  })

  it('closes every connection after its next answer once the service stops', async () => {
    const stage = new Stage()
    expect((await stage.request()).closed).toBe(false)
    stage.ingest.close()
    expect((await stage.request()).closed).toBe(true)
  })

  it('stores a batch with its charge, and with the time of the charge', async () => {
    const stage = new Stage()
    stage.takenAtMs = NOW_MS + 90_000
    await stage.request({ admit: 'later' })
    expect(stage.published).toEqual(stage.charges)
    expect(JSON.parse(stage.lines[0]).received_at).toBe('2026-11-20T12:01:30.000Z')
  })

  it.each<[string, Partial<Behaviour>]>([
    ['the app records throw', { find: 'throw' }],
    ['the limits throw', { admit: 'throw' }],
    ['the limits fail later', { admit: 'reject' }],
    ['the keys throw', { keyed: true, body: '{"app_key":"ak_1"}', replayOf: 'throw' }],
    ['the keys fail later', { keyed: true, body: '{"app_key":"ak_1"}', replayOf: 'reject' }],
    ['the queue throws', { publish: 'throw' }],
    ['the queue throws after the limits answered later', { publish: 'throw', admit: 'later' }],
  ])('answers 503 and tells of one fault where %s', async (_what, behaviour) => {
    const stage = new Stage()
    const sent = await stage.request(behaviour)
    expect([sent.answers, sent.status]).toEqual([1, '503 Service Unavailable'])
    expect(stage.faults).toHaveLength(1)
  })

  it('is in the queue when the decoded body has been handed back, unless a store waits', async () => {
    const stage = new Stage()
    const linesThen: number[] = []
    const decoded = stage.ingest.decoded.bind(stage.ingest)
    stage.ingest.decoded = (slot, validation) => {
      decoded(slot, validation)
      linesThen.push(stage.lines.length)
    }
    await stage.request()
    await stage.request({ admit: 'later' })
    expect(linesThen).toEqual([1, 1])
    expect(stage.lines).toHaveLength(2)
  })

  it.each([0, 1, 7, 100])('says that it took %i events', async (events) => {
    const stage = new Stage()
    const body = JSON.stringify({ app_key: 'ak_1', events: Array.from({ length: events }, () => event) })
    const sent = await stage.request({ body })
    expect([sent.status, sent.body]).toEqual(['202 Accepted', `{"status":"accepted","events":${events}}`])
  })

  it('stores the SDK version byte for byte, beside what the schema does not name', async () => {
    const stage = new Stage()
    const sent = { app_key: 'ak_1', sdk_version: 'é😀', events: [event] }
    await stage.request({ body: JSON.stringify(sent) })
    await stage.request({ body: JSON.stringify({ ...sent, more: 'ü' }) })
    const records = stage.lines.map((line) => JSON.parse(line) as unknown)
    expect(records).toMatchObject([{ sdk_version: 'é😀' }, { sdk_version: 'é😀', extra: { more: 'ü' } }])
  })

  it('sends the end of the limit window in Retry-After', async () => {
    const stage = new Stage()
    stage.retryAfterSeconds = 92
    const sent = await stage.request({ admit: 'over limit' })
    expect(sent.status).toBe('429 Too Many Requests')
    expect(sent.headers).toMatch(/\r\nRetry-After: 92\r\n/)
    expect(stage.ends).toEqual([])
  })
})

describe('the list of refusals', () => {
  const listed = { time_ms: NOW_MS, request_id: '0190a1b2-0000-7000-8000-000000000001' }

  it('has each refusal under the id of its answer, and with its message', async () => {
    const stage = new Stage()
    const sent = await stage.request({ body: '{"app_key":"ak_1","sdk_version":"1.2","events":[{}]}' })
    const { message } = JSON.parse(sent.body) as { message: string }
    expect(message).toBe('events[0].type: required')
    expect(sent.headers).toContain(`X-Request-Id: ${listed.request_id}`)
    expect(stage.activity.refusals.newest()).toEqual([
      {
        ...listed,
        app_id: 'one',
        code: 'validation_failed',
        reason: null,
        origin: null,
        path: 'events[0].type',
        shape: 'absent',
        message,
        sdk_version: '1.2',
      },
    ])
  })

  const body = JSON.stringify({ app_key: 'ak_1', sdk_version: 'é😀', events: [event] })
  it.each<[string, Partial<Behaviour>, Partial<RequestHead>, object]>([
    ['an unknown key', { find: 'unknown', body }, {}, { app_id: null, code: 'invalid_app_key', sdk_version: 'é😀' }],
    [
      'a limit',
      { admit: 'over limit', body },
      {},
      { app_id: 'one', code: 'monthly_limit_exceeded', sdk_version: 'é😀' },
    ],
    ['no SDK version', { admit: 'over limit' }, {}, { app_id: 'one', sdk_version: null }],
    [
      'no app key',
      { body: '{"sdk_version":"2","events":[]}' },
      {},
      { app_id: null, path: 'app_key', sdk_version: '2' },
    ],
    [
      'what is no JSON',
      { body: '{' },
      {},
      { app_id: null, code: 'invalid_json', path: null, shape: null, sdk_version: null },
    ],
    ['a head', {}, { path: '/x' }, { app_id: null, code: 'not_found', path: null, sdk_version: null }],
    ['a bad Idempotency-Key', {}, { idempotencyKey: '5' }, { code: 'validation_failed', path: null }],
    [
      'a 503 behind the admission',
      { publish: 'nats_away', body },
      {},
      { app_id: 'one', reason: 'nats_away', sdk_version: null, request_id: expect.stringMatching(/2$/) },
    ],
    [
      'a long SDK version, which it leaves out',
      { find: 'unknown', body: JSON.stringify({ app_key: 'ak_1', sdk_version: 'x'.repeat(65), events: [] }) },
      {},
      { sdk_version: null },
    ],
    [
      'a long SDK version in a body that does not fit',
      { body: JSON.stringify({ app_key: 'ak_1', sdk_version: 'x'.repeat(65) }) },
      {},
      { path: 'events', sdk_version: null },
    ],
    [
      'the longest SDK version, as escapes',
      { find: 'unknown', body: `{"app_key":"ak_1","sdk_version":"${'\\u00e9'.repeat(64)}","events":[]}` },
      {},
      { sdk_version: 'é'.repeat(64) },
    ],
  ])('has %s', async (_, behaviour, head, expected) => {
    const stage = new Stage()
    await stage.request(behaviour, head)
    expect(stage.activity.refusals.newest()).toHaveLength(1)
    expect(stage.activity.refusals.newest()[0]).toMatchObject({ ...listed, ...expected })
  })

  it('has no accepted request, no replay and no preflight', async () => {
    const stage = new Stage()
    await stage.request()
    await stage.request({ admit: 'replay', keyed: true })
    await stage.request({}, { method: 'OPTIONS', corsHeaders: '\r\nAccess-Control-Allow-Origin: *' })
    expect(stage.activity.refusals.newest()).toEqual([])
  })

  const OTHER = {
    time_ms: NOW_MS,
    request_id: batchIdOf('one', KEY),
    app_id: 'one',
    code: 'replayed_other_body',
    reason: null,
    origin: null,
    path: null,
    shape: null,
    message: 'this Idempotency-Key was accepted with another body: these events are not stored',
    sdk_version: '2',
  }
  const versioned = JSON.stringify({ app_key: 'ak_1', sdk_version: '2', events: [event] })
  it.each<[string, Partial<Behaviour>]>([
    ['an accepted key', { admit: 'replay', body: versioned }],
    ['a body that does not fit', { replayOf: 'replay', body: '{"app_key":"ak_1","sdk_version":"2"}' }],
  ])('has a replay with another body, which is answered 202 (%s)', async (_, behaviour) => {
    const stage = new Stage()
    Object.assign(stage, { eventsHash: 5, acceptedHash: 6 })
    const sent = await stage.request({ ...behaviour, keyed: true })
    expect([sent.status, stage.activity.refusals.newest()]).toEqual(['202 Accepted', [OTHER]])
    expect(sent.headers).toContain(`X-Batch-Id: ${OTHER.request_id}`)
    expect(sent.headers).toContain('Sluice-Replay: other')
    expect(stage.metrics.replays).toEqual({ same: 0, other: 1, unknown: 0 })
  })

  it.each([
    ['the same events', 5, 'same'],
    ['accepted events that are not known', undefined, 'unknown'],
  ] as const)('has no replay with %s', async (_, acceptedHash, body) => {
    const stage = new Stage()
    Object.assign(stage, { eventsHash: 5, acceptedHash })
    const sent = await stage.request({ admit: 'replay', keyed: true })
    expect(sent.headers).toContain(`Sluice-Replay: ${body}`)
    expect(stage.activity.refusals.newest()).toEqual([])
    expect(stage.metrics.replays).toEqual({ same: 0, other: 0, unknown: 0, [body]: 1 })
  })

  it('gives the hash of a stored body to the admission, and none of one that was stored before', async () => {
    const stage = new Stage()
    stage.eventsHash = 4_000_000_000
    await stage.request({ keyed: true })
    expect(stage.endedHash).toBe(4_000_000_000)
    await stage.request({ keyed: true, publish: 'duplicate' })
    expect(stage.endedHash).toBe(0)
    await stage.request()
    expect(stage.endedHash).toBe(0)
  })

  it('answers although a listener throws, and says so once', async () => {
    const stage = new Stage()
    stage.activity.refusals.onRefused = () => {
      throw new Error('a listener broke')
    }
    expect((await stage.request({ body: '{' })).status).toBe('400 Bad Request')
    expect([stage.faults.length, stage.outcomes]).toEqual([1, 1])
  })
})
