import { brotliCompressSync, deflateRawSync, deflateSync, gzipSync } from 'node:zlib'
import { describe, expect, it } from 'vitest'
import { Inflater } from '../../../src/http/inflate.ts'

const CAP_BYTES = 1000
const newInflater = (maxWaitingBytes = 10_000_000) => new Inflater({ capBytes: CAP_BYTES, maxWaitingBytes })
const text = Buffer.from('a body '.repeat(100))

describe('content encodings', () => {
  it.each([
    ['gzip', gzipSync(text)],
    ['deflate', deflateSync(text)],
    ['br', brotliCompressSync(text)],
  ] as const)('%s is undone', async (encoding, body) => {
    expect(await newInflater().inflate(encoding, body)).toEqual(text)
  })

  it('deflate without its zlib header is undone too, as some clients send it', async () => {
    expect(await newInflater().inflate('deflate', deflateRawSync(text))).toEqual(text)
  })

  it('a body of exactly the cap passes, one byte more is too large', async () => {
    const inflater = newInflater()
    expect(await inflater.inflate('gzip', gzipSync(Buffer.alloc(CAP_BYTES)))).toHaveLength(CAP_BYTES)
    expect(await inflater.inflate('gzip', gzipSync(Buffer.alloc(CAP_BYTES + 1)))).toBe('too large')
  })

  it.each(['gzip', 'deflate', 'br'] as const)('a %s bomb stops at the cap', async (encoding) => {
    const bomb = { gzip: gzipSync, deflate: deflateSync, br: brotliCompressSync }[encoding](Buffer.alloc(50_000_000))
    expect(await newInflater().inflate(encoding, bomb)).toBe('too large')
  })

  it.each(['gzip', 'deflate', 'br'] as const)(
    'what is not %s is corrupt, and so is nothing at all',
    async (encoding) => {
      const inflater = newInflater()
      expect(await inflater.inflate(encoding, Buffer.from('not compressed at all'))).toBe('corrupt')
      expect(await inflater.inflate(encoding, Buffer.alloc(0))).toBe('corrupt')
    },
  )

  it('a stream that was cut short is corrupt', async () => {
    expect(await newInflater().inflate('gzip', gzipSync(text).subarray(0, 20))).toBe('corrupt')
  })

  it('many at once are all served, a corrupt one among them stopping none', async () => {
    const inflater = newInflater()
    const bodies = Array.from({ length: 50 }, (_, n) => (n % 7 === 3 ? Buffer.from('no') : gzipSync(text)))
    const answers = await Promise.all(bodies.map((body) => inflater.inflate('gzip', body)))
    answers.forEach((answer, n) => expect(answer).toEqual(n % 7 === 3 ? 'corrupt' : text))
  })

  it('what waits for a decoder is bounded, small bodies counting like larger ones; the rest is turned away at once', async () => {
    const inflater = newInflater(2.5 * 64 * 1024)
    const answers = await Promise.all(Array.from({ length: 6 }, () => inflater.inflate('gzip', gzipSync(text))))
    expect(answers.map((answer) => (answer === 'busy' ? answer : 'done'))).toEqual(
      'done done done done busy busy'.split(' '),
    )
    expect(await inflater.inflate('gzip', gzipSync(text))).toEqual(text)
  })
})
