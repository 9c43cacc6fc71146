import type { IncomingMessage } from 'node:http'
import { PassThrough } from 'node:stream'
import { expect, it } from 'vitest'
import { AdminBodies } from '../../../src/http/admin-bodies.ts'

const MAX_BYTES = 524_288

/** An upload to the admin port, whose pieces the test sends. */
function upload(bodies: AdminBodies, headers: Readonly<Record<string, string>>, key?: string) {
  const request = Object.assign(new PassThrough(), { headers })
  const read = bodies
    .read(request as unknown as IncomingMessage, MAX_BYTES, key)
    .then((body) => (Buffer.isBuffer(body) ? body.toString() : body.status))
  return {
    read,
    piece: (text: string) => void request.write(text),
    end: (text = '') => void request.end(text),
    leave: () => void request.destroy(new Error('aborted')),
  }
}

/** What was sent is read. */
async function turns(): Promise<void> {
  for (let turn = 0; turn < 50; turn++) await new Promise((resolve) => setImmediate(resolve))
}

const SIZED = { 'content-length': '300000' }
const CHUNKED = { 'transfer-encoding': 'chunked' }

it('counts what has arrived of a body, and not what it announces, until it is whole', async () => {
  const bodies = new AdminBodies()
  const { piece, end, read } = upload(bodies, SIZED)
  for (let count = 1; count < 1000; count++) piece('x')
  await turns()
  expect(bodies.usedBytes).toBeGreaterThanOrEqual(999)
  expect(bodies.usedBytes).toBeLessThan(2 * 999)
  end('y'.repeat(299_001))
  expect(await read).toBe('x'.repeat(999) + 'y'.repeat(299_001))
  expect(bodies.usedBytes).toBe(0)
})

it('reads a body in chunks as it was sent', async () => {
  const bodies = new AdminBodies()
  const { piece, end, read } = upload(bodies, CHUNKED)
  for (const text of ['{', '"a":1', '}']) piece(text)
  end()
  expect(await read).toBe('{"a":1}')
  expect(bodies.usedBytes).toBe(0)
})

it('gives an empty body where none is announced', async () => {
  const { end, read } = upload(new AdminBodies(), {})
  end()
  expect(await read).toBe('')
})

it('refuses a body beyond its bound, by its length or once it is sent', async () => {
  const bodies = new AdminBodies()
  const announced = upload(bodies, { 'content-length': String(MAX_BYTES + 1) })
  expect(await announced.read).toBe(413)
  const large = upload(bodies, CHUNKED)
  large.piece('x'.repeat(MAX_BYTES))
  large.end('x')
  expect(await large.read).toBe(413)
  const largest = upload(bodies, CHUNKED)
  largest.end('x'.repeat(MAX_BYTES))
  expect(await largest.read).toHaveLength(MAX_BYTES)
  expect(bodies.usedBytes).toBe(0)
})

it('closes the body that has stalled longest, in place of one that goes on, where there is no room for both', async () => {
  const bodies = new AdminBodies()
  const stalled = Array.from({ length: 8 }, () => upload(bodies, CHUNKED))
  // The first one begins before the second, and stalls after it.
  for (const { piece } of stalled) piece('x'.repeat(5000))
  await turns()
  stalled[0].piece('x'.repeat(MAX_BYTES - 5000))
  await turns()
  for (const { piece } of stalled.slice(2)) piece('x'.repeat(MAX_BYTES - 5000))
  await turns()
  const trickled = stalled[1]
  trickled.piece('x')
  const goesOn = upload(bodies, CHUNKED)
  goesOn.piece('y'.repeat(MAX_BYTES))
  expect(await trickled.read).toBe(503)
  // The rest fills the room to the last byte.
  expect(bodies.usedBytes).toBe(4_194_304)
  const next = upload(bodies, SIZED)
  next.end('z'.repeat(300_000))
  expect(await next.read).toHaveLength(300_000)
  expect(await stalled[0].read).toBe(503)
  goesOn.end()
  expect(await goesOn.read).toHaveLength(MAX_BYTES)
  for (const { end } of stalled) end()
  expect((await Promise.all(stalled.slice(2).map(({ read }) => read))).map((body) => String(body).length)).toEqual(
    Array.from({ length: 6 }, () => MAX_BYTES),
  )
  expect(bodies.usedBytes).toBe(0)
})

it('has two large bodies of a key under way, and any number of small ones', async () => {
  const bodies = new AdminBodies()
  const [first, second] = [upload(bodies, SIZED, 'one'), upload(bodies, CHUNKED, 'one')]
  expect(await upload(bodies, SIZED, 'one').read).toBe(503)
  const others = [upload(bodies, SIZED, 'other'), upload(bodies, SIZED), upload(bodies, SIZED), upload(bodies, SIZED)]
  const small = Array.from({ length: 3 }, () => upload(bodies, { 'content-length': '4096' }, 'one'))
  for (const { end } of [...others, ...small]) end('x')
  expect(await Promise.all([...others, ...small].map(({ read }) => read))).toEqual(Array.from({ length: 7 }, () => 'x'))
  first.leave()
  expect(await first.read).toBe(400)
  const next = upload(bodies, SIZED, 'one')
  for (const { end } of [next, second]) end('x')
  expect(await Promise.all([next.read, second.read])).toEqual(['x', 'x'])
})
