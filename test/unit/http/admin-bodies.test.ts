import type { IncomingMessage } from 'node:http'
import { PassThrough } from 'node:stream'
import { expect, it } from 'vitest'
import { AdminBodies } from '../../../src/http/admin-bodies.ts'

const MAX_BYTES = 524_288

/** An upload to the admin port, whose pieces the test sends. */
function upload(bodies: AdminBodies, headers: Readonly<Record<string, string>>) {
  const request = Object.assign(new PassThrough(), { headers })
  const read = bodies
    .read(request as unknown as IncomingMessage, MAX_BYTES)
    .then((body) => (Buffer.isBuffer(body) ? body.toString() : body.status))
  return {
    read,
    piece: (text: string) => void request.write(text),
    end: (text = '') => void request.end(text),
    leave: () => void request.destroy(new Error('aborted')),
  }
}

const SIZED = { 'content-length': '300000' }
const CHUNKED = { 'transfer-encoding': 'chunked' }

it('counts a body by its length, however many pieces it comes in, until it is whole', async () => {
  const bodies = new AdminBodies()
  const { piece, end, read } = upload(bodies, SIZED)
  for (let count = 1; count < 1000; count++) piece('x')
  expect(bodies.usedBytes).toBe(300_000)
  end('y'.repeat(299_001))
  expect(await read).toBe('x'.repeat(999) + 'y'.repeat(299_001))
  expect(bodies.usedBytes).toBe(0)
})

it('reads a body in chunks as it was sent, and counts the most that it may have', async () => {
  const bodies = new AdminBodies()
  const { piece, end, read } = upload(bodies, CHUNKED)
  for (const text of ['{', '"a":1', '}']) piece(text)
  expect(bodies.usedBytes).toBe(MAX_BYTES)
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

it('refuses one that finds no room until others have left', async () => {
  const bodies = new AdminBodies()
  const waiting = Array.from({ length: 8 }, () => upload(bodies, CHUNKED))
  expect(await upload(bodies, SIZED).read).toBe(503)
  waiting[0].leave()
  expect(await waiting[0].read).toBe(400)
  const taken = upload(bodies, SIZED)
  taken.end('x')
  expect(await taken.read).toBe('x')
})
