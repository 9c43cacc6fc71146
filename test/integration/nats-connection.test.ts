import type { AddressInfo } from 'node:net'
import { createServer, type Socket } from 'node:net'
import { expect, it } from 'vitest'
import { systemTimers } from '../../src/lib/timers.ts'
import { NatsLink } from '../../src/nats/connection.ts'
import { eventually } from '../support/service.ts'

const INFO = 'INFO {"server_id":"x","version":"2.10.0","proto":1,"headers":true,"max_payload":1048576}\r\n'

it('a stop does not wait for a server that sends its greeting and nothing else', async () => {
  const sockets: Socket[] = []
  let greeted = 0
  const server = createServer((socket) => {
    sockets.push(socket.on('error', () => {}))
    socket.write(INFO)
    greeted += 1
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  const reasons: string[] = []
  const link = new NatsLink({
    nats: `nats://127.0.0.1:${port}`,
    timers: systemTimers,
    onUp: () => reasons.push('up'),
    onDown: (reason) => reasons.push(reason),
  })
  try {
    // The first connection only awaits the greeting; the second is the client's, whose handshake takes 5 s to fail.
    await eventually('the handshake is under way', () => greeted === 2)
    let isGivenUp = false
    sockets[1].once('close', () => (isGivenUp = true))
    await link.stop()
    expect(isGivenUp).toBe(false)
    expect(reasons).toEqual([])
  } finally {
    await link.stop()
    for (const socket of sockets) socket.destroy()
    server.close()
  }
})
