// Errors that client libraries make by themselves, as the handlers of a process get them.

import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { Redis } from 'ioredis'

/** How a call ends whose connection is closed by the other side. */
export async function droppedPromise(): Promise<unknown> {
  const server = createServer((socket) => socket.once('data', () => socket.destroy()))
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const client = new Redis((server.address() as AddressInfo).port, '127.0.0.1', {
    lazyConnect: true,
    retryStrategy: null,
    enableReadyCheck: false,
    disableClientInfo: true,
    protocol: 2,
  })
  client.on('error', () => {})
  await client.connect()
  const error = await client.asking().catch((reason: unknown) => reason)
  server.close()
  return error
}
