// A server that does not keep to the protocol of NATS: its connection ends, with a short reason, and little memory is taken.

import { type AddressInfo, createServer, type Socket } from 'node:net'
import { afterEach, expect, it, onTestFinished, vi } from 'vitest'
import { systemTimers } from '../../src/lib/timers.ts'
import { NatsLink } from '../../src/nats/connection.ts'
import { eventually } from '../support/service.ts'

const INFO = 'INFO {"server_id":"x","version":"2.10.0","proto":1,"headers":true,"max_payload":1048576}\r\n'
const MIB = 1024 ** 2

afterEach(() => void vi.restoreAllMocks())

/** `lie`: what each connection gets, once the client has introduced itself; or in place of the greeting. */
async function meet(lie: (socket: Socket) => void, greeting: string | null = INFO) {
  const printed = vi.spyOn(console, 'log').mockImplementation(() => {})
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket.on('error', () => {}))
    if (greeting === null) return lie(socket)
    socket.write(greeting)
    socket.on('data', (bytes) => {
      if (!bytes.includes('CONNECT')) return
      socket.write('PONG\r\n')
      lie(socket)
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const reasons: string[] = []
  const link = new NatsLink({
    nats: `nats://127.0.0.1:${(server.address() as AddressInfo).port}`,
    timers: systemTimers,
    onUp: () => {},
    onDown: (reason) => reasons.push(reason),
  })
  onTestFinished(async () => {
    await link.stop()
    for (const socket of sockets) socket.destroy()
    await new Promise((resolve) => server.close(resolve))
  })
  await eventually('the connection has ended', () => reasons.length > 0)
  expect(printed).not.toHaveBeenCalled()
  expect(reasons[0].length).toBeLessThan(400)
  return reasons[0]
}

/** Writes it again and again, as fast as it is read. Returns how much the server could send. */
function pour(socket: Socket, piece: Buffer): { sentBytes: number } {
  const poured = { sentBytes: 0 }
  const on = (): void => {
    while (!socket.destroyed && poured.sentBytes < 512 * MIB) {
      poured.sentBytes += piece.length
      if (!socket.write(piece)) return
    }
  }
  socket.on('drain', on)
  on()
  return poured
}

const A = Buffer.alloc(65_536, 'a')

it.each([
  ['a line without an end', Buffer.concat([Buffer.from('MSG '), A]), /a line without an end/],
  ['what is no line of the protocol', A, /: parse error \[0\]: a{50,200}…?$/],
  ['a message that is larger than it may be', Buffer.from('MSG x 1 50000000\r\n'), /a message of 50000000 bytes, with/],
  ['a message of an absurd size', Buffer.from('MSG x 1 2147483647\r\n'), /Size Error/],
  ['pings without an end', Buffer.from('PING\r\n'.repeat(10_000)), /more than 100 pings in a second/],
])('%s ends the connection', async (_, first, reason) => {
  const poured: { sentBytes: number }[] = []
  const given = await meet((socket) => {
    socket.write(first)
    poured.push(pour(socket, A))
  })
  expect(given).toMatch(/^the server does not keep to the protocol of NATS: /)
  expect(given).toMatch(reason)
  // What the kernel holds for both ends, and not what the message was said to have.
  expect(poured[0].sentBytes).toBeLessThan(24 * MIB)
})

it('a greeting without an end is not read to its end', async () => {
  expect(await meet((socket) => void pour(socket, A), null)).toBe('the server greets with a line without an end')
})

it('an error of the server is quoted in part', async () => {
  const given = await meet((socket) => socket.end(`-ERR '${'x'.repeat(40_000)}'\r\n`))
  expect(given).toMatch(/x{100}/)
})
