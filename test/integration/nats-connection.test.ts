import type { AddressInfo } from 'node:net'
import { createServer, type Socket } from 'node:net'
import { describe, expect, it, onTestFinished } from 'vitest'
import { systemTimers } from '../../src/lib/timers.ts'
import { NatsLink } from '../../src/nats/connection.ts'
import { openQueue, publishTo } from '../support/jetstream.ts'
import { makeRecord } from '../support/journal.ts'
import { startNats } from '../support/nats.ts'
import { freePort } from '../support/programs.ts'
import { eventually } from '../support/service.ts'

/** Ten seconds, and what a busy machine adds. */
const LEAVE_MS = 60_000

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

describe('with another server to go to', () => {
  it('leaves one that is cut off from its quorum: connected, and without an answer of JetStream', async () => {
    // One of three servers that never meet has no leader for JetStream, ever.
    const names = ['--server_name', 'alone', '--cluster_name', 'apart', '--cluster', 'nats://127.0.0.1:-1']
    const nobody = [await freePort(), await freePort()].map((port) => `nats://127.0.0.1:${port}`)
    const [alone, other] = [await startNats([...names, '--routes', nobody.join(',')]), await startNats()]
    onTestFinished(async () => {
      await alone.stop()
      await other.stop()
    })
    const { queue, notices } = openQueue(`${alone.url},${other.url}`, { random: () => 0 })
    onTestFinished(() => queue.stop())
    await eventually('it has gone to the other server', () => queue.isUp, LEAVE_MS)
    const { ack } = await publishTo(queue, makeRecord())
    expect(ack).toBe('durable')
    const left = `127.0.0.1:${alone.port} has answered nothing of JetStream for 10 s, trying another server`
    expect(notices.filter((notice) => notice.includes(left))).toHaveLength(1)
    expect(notices.filter((notice) => notice === 'NATS: connected')).toHaveLength(1)
  })

  it('leaves one that is frozen', async () => {
    const [frozen, other] = [await startNats(), await startNats()]
    onTestFinished(async () => {
      await frozen.stop()
      await other.stop()
    })
    const { queue } = openQueue(`${frozen.url},${other.url}`, { random: () => 0 })
    onTestFinished(() => queue.stop())
    await eventually('it is up', () => queue.isUp)
    expect(queue.connection?.getServer()).toBe(`127.0.0.1:${frozen.port}`)
    frozen.freeze()
    await eventually(
      'it has gone to the other server',
      () => queue.isUp && queue.connection?.getServer() === `127.0.0.1:${other.port}`,
      LEAVE_MS,
    )
    frozen.resume()
  })
})
