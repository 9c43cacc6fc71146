import { randomBytes } from 'node:crypto'
import { brotliCompressSync, deflateRawSync, deflateSync, gunzipSync, gzipSync } from 'node:zlib'
import { describe, expect, it, vi } from 'vitest'
import { emptyBrotli, emptyDeflate, emptyGzip, emptyZlib, thinGzip } from '../../../load/fuzz/empty-blocks.js'
import { type Inflated, Inflater, type InflaterOptions } from '../../../src/request/inflate.ts'
import { decodeInThread, decodeNow, threadStopwatch, tryInThread } from '../../../src/request/zlib.ts'

const CAP_BYTES = 512 * 1024
const newInflater = (options: Partial<InflaterOptions> = {}) =>
  new Inflater({ capBytes: CAP_BYTES, maxWaitingBytes: 10_000_000, ...options })
const text = Buffer.from('a body '.repeat(100))
const packs = { gzip: gzipSync, deflate: deflateSync, 'raw deflate': deflateRawSync, br: brotliCompressSync }
type Pack = keyof typeof packs
const PACKS = Object.keys(packs) as Pack[]
const encodingOf = (pack: Pack) => (pack === 'raw deflate' ? 'deflate' : pack)
/** Larger than a try allows, and compressed no better than real events. */
const large = Buffer.concat([randomBytes(4000), Buffer.alloc(200_000)])
const allOf = (inflated: readonly (Inflated | Promise<Inflated>)[]) =>
  Promise.all(inflated.map((each) => Promise.resolve(each)))
/** No time for tries, so that all bodies go to the threads. */
const NO_TRIES = { tryMsPerTurn: 0, maxWaitMs: 60_000 }
/** Tries take no time, and a body may wait for a minute. */
const UNHURRIED = { monotonicMs: () => 0, maxWaitMs: 60_000 }
/** What each piece takes in a thread. */
const taking = (ms: number) => () => () => ms
/** Comparing buffers of this size element by element would take a second. */
const isLarge = (inflated: Inflated) => typeof inflated !== 'string' && large.equals(inflated)

describe('content encodings', () => {
  it.each([
    ['gzip', gzipSync(text)],
    ['deflate', deflateSync(text)],
    ['br', brotliCompressSync(text)],
  ] as const)('%s is undone', async (encoding, body) => {
    expect(await newInflater().inflate(encoding, body)).toEqual(text)
  })

  it('deflate without a zlib header is decompressed too, as some clients send it', async () => {
    expect(await newInflater().inflate('deflate', deflateRawSync(text))).toEqual(text)
  })

  it('a body of exactly the cap passes, one byte more is too large', async () => {
    const inflater = newInflater()
    expect(await inflater.inflate('gzip', gzipSync(Buffer.alloc(CAP_BYTES)))).toHaveLength(CAP_BYTES)
    expect(await inflater.inflate('gzip', gzipSync(Buffer.alloc(CAP_BYTES + 1)))).toBe('too large')
  })

  it.each(PACKS)('%s: bytes after its end make it corrupt', async (pack) => {
    const packed = packs[pack](text)
    const packedLarge = packs[pack](large)
    for (const rest of [Buffer.from('garbage'), Buffer.from('A'), Buffer.alloc(1), Buffer.alloc(20)]) {
      expect(await newInflater().inflate(encodingOf(pack), Buffer.concat([packed, rest]))).toBe('corrupt')
      expect(await newInflater().inflate(encodingOf(pack), Buffer.concat([packedLarge, rest]))).toBe('corrupt')
    }
  })

  it.each(PACKS)('%s: a second stream after the first is valid in gzip, and corrupt elsewhere', async (pack) => {
    const twice = Buffer.concat([packs[pack](text), packs[pack](text)])
    const inflated = await newInflater().inflate(encodingOf(pack), twice)
    expect(inflated).toEqual(pack === 'gzip' ? Buffer.concat([text, text]) : 'corrupt')
  })

  it.each(PACKS)('%s: a truncated stream is corrupt, wherever it was cut', async (pack) => {
    const packed = packs[pack](text)
    for (let length = 0; length < packed.length; length++) {
      expect(await newInflater().inflate(encodingOf(pack), packed.subarray(0, length))).toBe('corrupt')
    }
  })

  it.each(PACKS)(
    '%s: large bodies are decompressed too, and so are all when a turn has no time for tries',
    async (pack) => {
      expect(isLarge(await newInflater().inflate(encodingOf(pack), packs[pack](large)))).toBe(true)
      expect(isLarge(await newInflater(NO_TRIES).inflate(encodingOf(pack), packs[pack](large)))).toBe(true)
      expect(await newInflater(NO_TRIES).inflate(encodingOf(pack), packs[pack](text))).toEqual(text)
    },
  )

  it.each(['gzip', 'deflate', 'br'] as const)('a %s bomb stops at the cap', async (encoding) => {
    const bomb = { gzip: gzipSync, deflate: deflateSync, br: brotliCompressSync }[encoding](Buffer.alloc(8_000_000))
    expect(await newInflater().inflate(encoding, bomb)).toBe('too large')
  })

  it.each(['gzip', 'deflate', 'br'] as const)(
    'bytes that are not %s are corrupt, and so is an empty body',
    async (encoding) => {
      const inflater = newInflater()
      expect(await inflater.inflate(encoding, Buffer.from('not compressed at all'))).toBe('corrupt')
      expect(await inflater.inflate(encoding, Buffer.alloc(0))).toBe('corrupt')
    },
  )

  it('a short truncated stream is corrupt', async () => {
    expect(await newInflater().inflate('gzip', gzipSync(text).subarray(0, 20))).toBe('corrupt')
  })

  it('many at once are all served, even with a corrupt one among them', async () => {
    const inflater = newInflater()
    const bodies = Array.from({ length: 50 }, (_, n) => (n % 7 === 3 ? Buffer.from('no') : gzipSync(text)))
    const answers = await allOf(bodies.map((body) => inflater.inflate('gzip', body)))
    answers.forEach((answer, n) => expect(answer).toEqual(n % 7 === 3 ? 'corrupt' : text))
  })

  it('an ordinary body is decompressed before the call returns, whatever waits', async () => {
    const inflater = newInflater(UNHURRIED)
    const bombs = Array.from({ length: 20 }, () => inflater.inflate('gzip', gzipSync(Buffer.alloc(1_000_000))))
    expect(inflater.inflate('gzip', gzipSync(text))).toEqual(text)
    expect(await allOf(bombs)).toEqual(bombs.map(() => 'too large'))
  })

  it('the time for tries of a turn is bounded; further bodies wait, and the next turn tries again', async () => {
    let monotonicMs = 0
    const inflater = newInflater({ tryMsPerTurn: 5, monotonicMs: () => monotonicMs++ })
    const inflated = Array.from({ length: 8 }, () => inflater.inflate('gzip', gzipSync(text)))
    expect(inflated.map((each) => each instanceof Promise)).toEqual([0, 0, 0, 0, 0, 1, 1, 1].map(Boolean))
    expect(await allOf(inflated)).toEqual(inflated.map(() => text))
    await new Promise((resolve) => setImmediate(resolve))
    expect(inflater.inflate('gzip', gzipSync(text))).toEqual(text)
  })

  it('bodies that a turn had no time for are tried in the next ones, without waiting for the decoders', async () => {
    let monotonicMs = 0
    const inflater = newInflater({ ...UNHURRIED, tryMsPerTurn: 2, monotonicMs: () => monotonicMs++ })
    // Two that occupy a decoder each for longer than this test takes.
    const slow = [1, 2].map(() => inflater.inflate('gzip', gzipSync(randomBytes(500_000))))
    const inflated = Array.from({ length: 6 }, () => inflater.inflate('gzip', gzipSync(text)))
    let settled = 0
    for (const each of inflated) void Promise.resolve(each).then(() => settled++)
    for (let turn = 0; turn < 2; turn++) await new Promise((resolve) => setImmediate(resolve))
    expect(settled).toBe(6)
    expect(await allOf(inflated)).toEqual(inflated.map(() => text))
    await allOf(slow)
  })

  it('waiting bodies are bounded in bytes, with a minimum for each; further ones are busy before the call returns', async () => {
    const inflater = newInflater({ ...NO_TRIES, maxWaitingBytes: 2.5 * 64 * 1024 })
    const inflated = Array.from({ length: 6 }, () => inflater.inflate('gzip', gzipSync(text)))
    expect(inflated.slice(4)).toEqual(['busy', 'busy'])
    expect(await allOf(inflated.slice(0, 4))).toEqual([text, text, text, text])
    expect(await inflater.inflate('gzip', gzipSync(text))).toEqual(text)
  })

  it('bodies that compress better than events wait behind all others, and are dismissed first', async () => {
    const inflater = newInflater({ ...UNHURRIED, maxWaitingBytes: 4 * 64 * 1024 })
    const bomb = gzipSync(Buffer.alloc(400_000))
    const order: string[] = []
    const begin = async (name: string, body: Buffer) => {
      const inflated = await inflater.inflate('gzip', body)
      order.push(`${name}: ${typeof inflated === 'string' ? inflated : 'done'}`)
    }
    const bombs = [1, 2, 3, 4, 5, 6].map((n) => begin(`bomb ${n}`, bomb))
    await Promise.all([...bombs, begin('honest', gzipSync(large)), begin('honest', gzipSync(large))])
    expect(order.slice(0, 2)).toEqual(['bomb 6: busy', 'bomb 5: busy'])
    expect(order.lastIndexOf('honest: done')).toBeLessThan(order.indexOf('bomb 3: done'))
    expect(order).toHaveLength(8)
  })

  it('a body that waits too long is busy', async () => {
    const inflater = newInflater({ maxWaitMs: 0, monotonicMs: () => 0 })
    const inflated = await allOf(
      Array.from({ length: 40 }, () =>
        inflater.inflate('gzip', gzipSync(Buffer.concat([large, randomBytes(250_000)]))),
      ),
    )
    expect(inflated.some((each) => each !== 'busy')).toBe(true)
    expect(inflated.includes('busy')).toBe(true)
    expect(inflater.inflate('gzip', gzipSync(text))).toEqual(text)
  })
})

describe('bodies that unfold to next to nothing', () => {
  const empties = [
    ['gzip', 'gzip', emptyGzip],
    ['deflate', 'zlib', emptyZlib],
    ['deflate', 'raw', emptyDeflate],
    ['br', 'br', emptyBrotli],
  ] as const

  it.each(empties)(
    '%s (%s): a try gives up after its first step, whatever that took, and a thread after its first piece',
    async (_, format, make) => {
      const neverLooked = (): number => expect.unreachable('the clock was asked')
      expect(decodeNow(format, make(16_384), Buffer.alloc(65_537), neverLooked)).toBe('odd')
      expect(await tryInThread(format, make(524_288), CAP_BYTES, taking(0))).toBe('odd')
    },
  )

  it.each(empties)('%s (%s): they are decoded all the same, after all others', async (encoding, _, make) => {
    const inflater = newInflater(UNHURRIED)
    for (const bytes of [16_384, 100_000]) {
      const inflated = await inflater.inflate(encoding, make(bytes))
      expect(typeof inflated === 'string' ? inflated : inflated.toString().trim()).toBe('')
    }
  })

  it('one of them holds a decoder, and another is left for honest bodies', async () => {
    const inflater = newInflater({ ...NO_TRIES, maxWaitingBytes: 60 * 64 * 1024 })
    const order: string[] = []
    const begin = async (name: string, body: Buffer) => {
      await inflater.inflate('br', body)
      order.push(name)
    }
    const odd = Array.from({ length: 6 }, () => begin('odd', emptyBrotli(300_000)))
    const honest = Array.from({ length: 6 }, () => begin('honest', brotliCompressSync(text)))
    await Promise.all([...odd, ...honest])
    expect(order.slice(0, 6)).toEqual(Array.from({ length: 6 }, () => 'honest'))
  })

  it('what takes long at each step is given up, and what only waited for a core at one of them is not', () => {
    const body = gzipSync(Buffer.from(Array.from({ length: 3000 }, () => randomBytes(4).toString('hex')).join(',')))
    const out = Buffer.alloc(65_537)
    let ms = 0
    expect(decodeNow('gzip', body, out, () => (ms += 100))).toBe('odd')
    expect(decodeNow('gzip', body, out, () => 100)).toHaveLength(26_999)
  })

  it('what unfolds to four times its size and more is never given up, however long it waited for cores', async () => {
    const line = () => `${randomBytes(8).toString('hex')} and what all events have, such as the names of their members`
    const body = gzipSync(Array.from({ length: 4000 }, line).join(','))
    expect(await tryInThread('gzip', body, CAP_BYTES, taking(1000))).toHaveLength(gunzipSync(body).length)
  })

  it.each([7, 20])(
    'blocks of %i blanks make enough of their input: a thread gives up on them by its time',
    async (blanks) => {
      const body = thinGzip(300_000, blanks)
      // The first 4 KB of them make 2 or 5 KB, which may take 0.1 or 0.26 ms.
      expect(await tryInThread('gzip', body, CAP_BYTES, taking(0.1))).toHaveLength(gunzipSync(body).length)
      expect(await tryInThread('gzip', body, CAP_BYTES, taking(4))).toBe('odd')
    },
  )

  it('a thread gives up after a millisecond too much in all pieces together', async () => {
    const body = thinGzip(300_000, 7)
    // The pieces may take 0.1, 0.1, 0.2, 0.4 and 0.8 ms.
    const inTurn =
      (...pieces: number[]) =>
      () =>
      () =>
        pieces.shift() ?? 0
    expect(await tryInThread('gzip', body, CAP_BYTES, inTurn(0.3, 0.3, 0.4, 0.6))).toHaveLength(gunzipSync(body).length)
    expect(await tryInThread('gzip', body, CAP_BYTES, inTurn(0.3, 0.3, 0.4, 0.6, 1.2))).toBe('odd')
  })

  it('what takes a thread long is decoded all the same, and holds one decoder at most', async () => {
    const inflater = newInflater({ ...NO_TRIES, maxWaitingBytes: 60 * 64 * 1024, stopwatch: taking(4) })
    const order: string[] = []
    const begin = async (name: string, body: Buffer) => {
      expect(typeof (await inflater.inflate('gzip', body))).toBe('object')
      order.push(name)
    }
    const slow = Array.from({ length: 6 }, () => begin('slow', thinGzip(300_000, 7)))
    const honest = Array.from({ length: 6 }, () => begin('honest', gzipSync(text)))
    await Promise.all([...slow, ...honest])
    expect(order.slice(0, 6)).toEqual(Array.from({ length: 6 }, () => 'honest'))
  })

  it('the time of a thread is none while the event loop works, and at most what this process had of all cores', async () => {
    const whileBusyMs = threadStopwatch()
    const until = performance.now() + 5
    while (performance.now() < until);
    expect(whileBusyMs()).toBe(0)
    const cpuUsage = vi.spyOn(process, 'cpuUsage').mockReturnValue({ user: 3000, system: 1000 })
    const spentMs = threadStopwatch()
    await vi.waitFor(() => expect(spentMs()).toBe(4))
    cpuUsage.mockRestore()
  })
})

describe('errors that the body did not cause', () => {
  it('a lack of memory rejects, and says nothing about the body', async () => {
    // A negative limit makes zlib throw.
    await expect(decodeInThread('gzip', gzipSync(text), -1)).rejects.toThrow(RangeError)
  })
})
