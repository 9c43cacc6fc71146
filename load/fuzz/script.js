// @ts-check
// What one hostile client does, step by step, and what it may hear for it. All of it follows from the seed and the
// client's number.

import { mutate, nonsense } from './mutate.js'
import { Random } from './random.js'
import * as requests from './requests.js'

/**
 * @typedef {{ do: 'write', bytes: Buffer } | { do: 'pause', ms: number } | { do: 'answers', count: number }
 *   | { do: 'deafen' } | { do: 'hear' } | { do: 'half-close' } | { do: 'reset' } | { do: 'close' }} Step
 */
/**
 * What it must hear. `any`: whatever comes is a row of sound answers. `judged`: one answer, the one that this body
 * deserves. `each`: these answers in this order, and no others. `admin`: whatever comes is HTTP.
 * @typedef {{ hears: 'any' } | { hears: 'admin' }
 *   | { hears: 'judged', body: Buffer, encoding: requests.Encoding }
 *   | { hears: 'each', answers: readonly ExpectedAnswer[] }} Expectation
 */
/** @typedef {{ status: number, error?: string, events?: number, deduplicated?: boolean, orBusy?: boolean }} ExpectedAnswer orBusy: a 503 is right too, and leaves the key to the next one */
/** @typedef {{ kind: string, steps: Step[], expectation: Expectation, mayHead: boolean }} Script */

/**
 * @typedef {object} Ground
 * @property {number} seed
 * @property {number} nowMs
 * @property {number} round 0, or how often this client was sent before: each round has keys of its own
 * @property {boolean} splitsRequestLine the engine takes a request line that comes in pieces
 */

/** Longer than any request line here: where the engine wants that in one piece. */
const FIRST_PIECE_BYTES = 64
/** How often each kind of client comes. */
const WEIGHTS = {
  split: 20,
  'harmed body': 20,
  'harmed compression': 8,
  'harmed head': 14,
  'harmed stream': 10,
  pipelining: 10,
  flood: 1,
  leaving: 10,
  'slow writer': 4,
  'deaf reader': 3,
  bomb: 2,
  'empty blocks': 3,
  'half a head': 3,
  'too large': 2,
  nonsense: 6,
  'half-close': 4,
  silence: 2,
  admin: 6,
}
/** @typedef {keyof typeof WEIGHTS} Kind */

/** @type {Readonly<Record<Kind, (random: Random, ground: Ground) => Omit<Script, 'kind' | 'mayHead'> & { mayHead?: boolean }>>} */
const KINDS = {
  split: (random, ground) => {
    /** @type {Step[]} */
    const steps = []
    /** @type {ExpectedAnswer[]} */
    const answers = []
    const key = random.chance(0.4) ? requests.makeKey(random, ground.round) : null
    const { body, events } = requests.makeBody(random, ground.nowMs)
    for (let count = random.between(1, 4); count > 0; count--) {
      const encoding = requests.pickEncoding(random)
      const bytes = requests.postOf(random, requests.compress(random, encoding, body), { encoding, key })
      steps.push(...inPieces(random, bytes, ground, 15), { do: 'answers', count: answers.length + 1 })
      const isRepeat = key !== null && answers.length > 0
      // A compressed one waits for a decoder, up to a tenth of a second.
      answers.push({ status: 202, events, deduplicated: isRepeat, orBusy: encoding !== 'identity' })
    }
    return { steps, expectation: { hears: 'each', answers } }
  },
  'harmed body': (random, ground) => {
    const body = mutate(random, requests.makeBody(random, ground.nowMs).body, 'json')
    const encoding = requests.pickEncoding(random)
    const bytes = requests.postOf(random, requests.compress(random, encoding, body), { encoding })
    return judged(inPieces(random, bytes, ground, 5), body, 'identity')
  },
  'harmed compression': (random, ground) => {
    const encoding = random.pick(/** @type {const} */ (['gzip', 'deflate', 'br']))
    const body = mutate(
      random,
      requests.compress(random, encoding, requests.makeBody(random, ground.nowMs).body),
      'json',
    )
    return judged(inPieces(random, requests.postOf(random, body, { encoding }), ground, 5), body, encoding)
  },
  'harmed head': (random, ground) => {
    const whole = requests.postOf(random, requests.makeBody(random, ground.nowMs).body)
    const bodyAt = whole.indexOf('\r\n\r\n') + 4
    const bytes = Buffer.concat([mutate(random, whole.subarray(0, bodyAt), 'http'), whole.subarray(bodyAt)])
    return anything([...inPieces(random, bytes, ground, 5), ...someEnd(random)])
  },
  'harmed stream': (random, ground) => {
    const whole = Buffer.concat(Array.from({ length: random.between(1, 8) }, () => anyRequest(random, ground)))
    return anything([...inPieces(random, mutate(random, whole, 'http'), ground, 5), ...someEnd(random)], true)
  },
  pipelining: (random, ground) => {
    const whole = Buffer.concat(Array.from({ length: random.between(2, 60) }, () => anyRequest(random, ground)))
    return anything([...inPieces(random, whole, ground, 3), ...someEnd(random)], true)
  },
  flood: (random) => {
    const one = requests.refusedByHead(random)
    const whole = Buffer.concat(Array.from({ length: random.between(100, 5000) }, () => one))
    /** @type {Step[]} */
    const steps = [{ do: 'write', bytes: whole }]
    if (random.chance(0.7)) steps.unshift({ do: 'deafen' })
    return anything([...steps, ...someEnd(random)], true)
  },
  leaving: (random, ground) => {
    const whole = anyRequest(random, ground)
    const steps = inPieces(random, whole.subarray(0, random.below(whole.length + 1)), ground, 10)
    return anything([...steps, { do: random.pick(['reset', 'close', 'half-close']) }], true)
  },
  'slow writer': (random, ground) => {
    const { body, events } = requests.makeBody(random, ground.nowMs)
    const bytes = requests.postOf(random, body)
    /** @type {Step[]} */
    const steps = []
    const pieces = random.between(10, 40)
    const size = Math.max(FIRST_PIECE_BYTES, Math.ceil(bytes.length / pieces))
    for (let at = 0; at < bytes.length; at += size) {
      steps.push({ do: 'write', bytes: bytes.subarray(at, at + size) }, { do: 'pause', ms: random.below(150) })
    }
    return {
      steps: [...steps, { do: 'answers', count: 1 }],
      expectation: { hears: 'each', answers: [{ status: 202, events }] },
    }
  },
  'deaf reader': (random, ground) => {
    /** @type {Step[]} */
    const steps = [{ do: 'deafen' }]
    for (let count = random.between(20, 200); count > 0; count--) {
      steps.push({ do: 'write', bytes: anyRequest(random, ground) }, { do: 'pause', ms: random.below(10) })
    }
    if (random.chance(0.5)) steps.push({ do: 'hear' })
    return anything([...steps, ...someEnd(random)], true)
  },
  bomb: (random, ground) => {
    const { encoding, bytes } = requests.bomb(random)
    const steps = inPieces(random, requests.postOf(random, bytes, { encoding, chunked: false }), ground, 2)
    // It waits behind all honest bodies, and for the empty blocks of others.
    return each(steps, { status: 413, error: 'payload_too_large', orBusy: true })
  },
  'empty blocks': (random, ground) => {
    const { encoding, bytes } = requests.emptyBlocks(random)
    const steps = inPieces(random, requests.postOf(random, bytes, { encoding, chunked: false }), ground, 2)
    // It is no JSON, once there is time to look.
    return anything([...steps, ...(random.chance(0.7) ? [] : someEnd(random))])
  },
  'half a head': (random) => {
    const head = requests.requestLine(random.pick(['GET /livez', 'POST /api/explain', 'GET /api/events/stream']))
    const half = head.subarray(0, random.between(0, head.length - 1))
    return {
      steps: [{ do: 'write', bytes: half }, { do: 'pause', ms: random.below(1500) }, ...someEnd(random)],
      expectation: { hears: 'admin' },
    }
  },
  'too large': (random, ground) => {
    const tooMuch = requests.MAX_BODY_BYTES + random.between(1, 2000)
    const whole = requests.postOf(random, Buffer.alloc(tooMuch, 0x20))
    return anything([...inPieces(random, whole, ground, 2), ...someEnd(random)])
  },
  nonsense: (random, ground) => anything([...inPieces(random, nonsense(random), ground, 5), ...someEnd(random)], true),
  'half-close': (random, ground) => {
    const whole = anyRequest(random, ground)
    const steps = inPieces(
      random,
      whole.subarray(0, random.chance(0.5) ? whole.length : random.below(whole.length)),
      ground,
      3,
    )
    return anything([...steps, { do: 'half-close' }, { do: 'pause', ms: random.below(200) }], true)
  },
  silence: (random) => anything([{ do: 'pause', ms: random.below(2000) }, ...someEnd(random)]),
  admin: (random, ground) => {
    const one = () =>
      requests.requestLine(
        random.pick(['GET /metrics', 'HEAD /metrics', 'GET /livez', 'GET /readyz?verbose', 'POST /x', 'GET /%00']),
      )
    const whole = Buffer.concat(Array.from({ length: random.pick([1, 1, 2, 5, 40]) }, one))
    const bytes = random.chance(0.5) ? whole : mutate(random, whole, 'http')
    return {
      steps: [...inPieces(random, bytes, ground, 3), ...someEnd(random)],
      expectation: { hears: 'admin' },
      mayHead: true,
    }
  },
}

/** @param {Ground} ground @param {number} client @returns {Script} */
export function scriptOf(ground, client) {
  const random = Random.ofClient(ground.seed, client)
  const kind = random.weighted(WEIGHTS)
  return { kind, mayHead: false, ...KINDS[kind](random, ground) }
}

/** @param {Random} random @param {Ground} ground */
function anyRequest(random, ground) {
  if (random.chance(0.5)) return requests.refusedByHead(random)
  const encoding = requests.pickEncoding(random)
  const { body } = requests.makeBody(random, ground.nowMs)
  const key = random.chance(0.3) ? requests.makeKey(random, ground.round) : null
  return requests.postOf(random, requests.compress(random, encoding, body), { encoding, key })
}

/** @param {Step[]} steps @param {boolean} [mayHead] @returns {{ steps: Step[], expectation: Expectation, mayHead: boolean }} */
function anything(steps, mayHead = false) {
  return { steps, expectation: { hears: 'any' }, mayHead }
}

/** @param {Step[]} steps @param {ExpectedAnswer} answer @returns {{ steps: Step[], expectation: Expectation }} */
function each(steps, answer) {
  return { steps: [...steps, { do: 'answers', count: 1 }], expectation: { hears: 'each', answers: [answer] } }
}

/** @param {Step[]} steps @param {Buffer} body @param {requests.Encoding} encoding @returns {{ steps: Step[], expectation: Expectation }} */
function judged(steps, body, encoding) {
  return { steps: [...steps, { do: 'answers', count: 1 }], expectation: { hears: 'judged', body, encoding } }
}

/** Writes of any size with pauses between. @param {Random} random @param {Buffer} bytes @param {Ground} ground @param {number} mostMs @returns {Step[]} */
function inPieces(random, bytes, ground, mostMs) {
  const cuts = new Set()
  if (random.chance(0.6)) {
    const first = ground.splitsRequestLine ? 1 : FIRST_PIECE_BYTES
    for (let count = random.between(1, 6); count > 0; count--) {
      // As often around the head's end as anywhere.
      const within = random.chance(0.5) ? Math.min(bytes.length, 300) : bytes.length
      if (within > first) cuts.add(random.between(first, within - 1))
    }
  }
  /** @type {Step[]} */
  const steps = []
  let at = 0
  for (const cut of [...cuts].toSorted((one, other) => one - other)) {
    steps.push({ do: 'write', bytes: bytes.subarray(at, cut) }, { do: 'pause', ms: random.below(mostMs) })
    at = cut
  }
  return [...steps, { do: 'write', bytes: bytes.subarray(at) }]
}

/** How it leaves when it does not wait for what it deserves. @param {Random} random @returns {Step[]} */
function someEnd(random) {
  const waits = /** @type {Step[]} */ (random.chance(0.6) ? [{ do: 'pause', ms: random.below(100) }] : [])
  return [...waits, { do: random.pick(['reset', 'close', 'close', 'half-close']) }]
}
