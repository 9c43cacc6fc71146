// The HTTP server of the examples that listen: what holds up nobody, however little or much a client sends.

import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { expect, it, onTestFinished } from 'vitest'
import { limitedLog } from '../../examples/shared/limited-log.js'
import { serve } from '../../examples/shared/serve.js'
import { head, openRaw, type RawConnection, rawPost } from '../support/raw-http.ts'

const part = (bytes: number, of: number) => head([`Content-Length: ${of}`]) + 'x'.repeat(bytes)

async function begin(changes: Partial<Parameters<typeof serve>[0]> = {}) {
  const faults: unknown[] = []
  const server = serve({
    name: 'test',
    host: '127.0.0.1',
    port: 0,
    maxConnections: 100,
    maxBodyBytes: 100_000,
    maxGatheredBytes: 1_000_000,
    answer: async (_, readBody) => ({
      status: 200,
      text: String((await readBody())?.toString('latin1').length ?? null),
    }),
    onFault: (error) => faults.push(error),
    // Nothing is closed for its age, but where that is meant.
    timeoutsMs: { headersTimeout: 600_000, requestTimeout: 600_000 },
    ...changes,
  })
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  onTestFinished(() => {
    server.close().closeAllConnections()
    expect(faults).toEqual([])
  })
  return {
    open: async (text = ''): Promise<RawConnection> => {
      const raw = await openRaw(port)
      onTestFinished(() => raw.close())
      if (text !== '') raw.write(text)
      return raw
    },
    /** What an honest client is answered. */
    ask: async (body = 'x'): Promise<string | undefined> => {
      const raw = await openRaw(port)
      raw.write(rawPost(body))
      const answer = await raw.readAnswer()
      raw.close()
      return answer?.text
    },
  }
}

it.each([
  ['nothing', '', 408],
  ['half of a head', 'POST / HTTP/1.1\r\nHost:', 408],
  ['half of a body', part(10, 20), 408],
  ['one request, and no other', rawPost('x'), 200],
])('ends a connection that sends %s', async (_, text, status) => {
  const timeoutsMs = { headersTimeout: 50, requestTimeout: 100, keepAliveTimeout: 50 }
  const { open } = await begin({ timeoutsMs })
  const raw = await open(text)
  expect(await raw.readAnswer()).toMatchObject({ status })
  expect(await raw.readAnswer()).toBeNull()
})

it('closes the connection that has waited longest for its client, where all places are taken', async () => {
  const { open, ask } = await begin({ maxConnections: 3 })
  const oldest = await open('POST / HTTP/1.1\r\n')
  for (let count = 0; count < 2; count += 1) await open('POST / HTTP/1.1\r\n')
  expect(await ask('honest')).toBe('6')
  await oldest.closed
})

it('closes none that waits for its answer', async () => {
  const answers: ((answer: { status: number; text: string }) => void)[] = []
  const { open } = await begin({
    maxConnections: 2,
    answer: async (_, readBody) => {
      await readBody()
      return new Promise((done) => answers.push(done))
    },
  })
  const asked = await open(rawPost('x'))
  const halves = []
  for (let count = 0; count < 4; count += 1) halves.push(await open(part(1, 2)))
  await Promise.all(halves.slice(0, 3).map(({ closed }) => closed))
  answers[0]({ status: 200, text: 'in time' })
  expect(await asked.readAnswer()).toMatchObject({ text: 'in time' })
})

it('takes a body of the most bytes in any pieces, and reads no longer one', async () => {
  const { ask, open } = await begin({ maxBodyBytes: 10_000 })
  expect(await ask('x'.repeat(10_000))).toBe('10000')
  expect(await ask('x'.repeat(10_001))).toBe('null')
  const chunked = await open(head(['Transfer-Encoding: chunked']))
  for (let piece = 0; piece < 5; piece += 1) chunked.write(`7d0\r\n${String(piece).repeat(2000)}\r\n`)
  chunked.write('0\r\n\r\n')
  expect(await chunked.readAnswer()).toMatchObject({ text: '10000' })
  // Told that it is too long, and goes on.
  const endless = await open(head(['Transfer-Encoding: chunked']))
  while (!endless.socket.destroyed) {
    endless.write(`4000\r\n${'x'.repeat(0x4000)}\r\n`)
    await new Promise(setImmediate)
  }
})

it('closes the body that has stalled longest, where all together have no more room', async () => {
  const { open, ask } = await begin({ maxGatheredBytes: 20_000 })
  const goesOn = await open(part(4096, 8292))
  const stalled = await open(part(4096, 8292))
  // Behind its answer, what was written before is read.
  await ask()
  goesOn.write('x'.repeat(4096))
  await ask()
  expect(await ask('x'.repeat(10_000))).toBe('10000')
  await stalled.closed
  goesOn.write('x'.repeat(100))
  expect(await goesOn.readAnswer()).toMatchObject({ text: '8292' })
})

it('closes a client that does not wait for its answer', async () => {
  let begun = 0
  const { open } = await begin({ answer: () => new Promise(() => (begun += 1)) })
  const raw = await open(rawPost('x') + rawPost('x') + rawPost('x'))
  await raw.closed
  expect(begun).toBe(1)
})

it('writes one line a second of each kind, and how many it left out', () => {
  const lines: string[] = []
  let nowMs = 0
  const log = limitedLog(
    (line) => lines.push(line),
    () => nowMs,
  )
  for (let round = 0; round < 3; round += 1) log('a', `a ${round}`)
  log('b', 'b')
  nowMs = 1000
  for (let round = 3; round < 5; round += 1) log('a', `a ${round}`)
  expect(lines).toEqual(['a 0', 'b', 'a 3 (and 2 more such lines, not written)'])
})
