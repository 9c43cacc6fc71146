// Who is to blame for an error that nobody caught, by its stack.

import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { Redis, ReplyError } from 'ioredis'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { libraryAtFault, STACK_FRAMES } from '../../../src/lib/library-fault.ts'
import { droppedPromise } from '../../support/library-faults.ts'

const { stackTraceLimit } = Error
beforeAll(() => void (Error.stackTraceLimit = STACK_FRAMES))
afterAll(() => void (Error.stackTraceLimit = stackTraceLimit))

/** What a client throws in the handler of its socket when this comes that nothing asked for, caught where the process would be ended. */
async function thrownBy(bytes: string): Promise<unknown> {
  const server = createServer((socket) => socket.write(bytes))
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const listeners = process.listeners('uncaughtException')
  process.removeAllListeners('uncaughtException')
  const thrown = once(process, 'uncaughtException')
  const client = new Redis((server.address() as AddressInfo).port, '127.0.0.1', {
    retryStrategy: null,
    enableReadyCheck: false,
    disableClientInfo: true,
    protocol: 2,
  })
  client.on('error', () => {})
  const [error] = await thrown
  for (const listener of listeners) process.on('uncaughtException', listener)
  client.disconnect()
  server.close()
  return error
}

function withStack(...frames: readonly string[]): Error {
  const error = new TypeError('x')
  error.stack = ['TypeError: x', ...frames.map((frame) => `    at ${frame}`)].join('\n')
  return error
}

const IN_LIBRARY = 'DataHandler.shiftCommand (/app/node_modules/ioredis/built/DataHandler.js:284:9)'
const IN_NODE = 'Socket.emit (node:events:517:28)'
const OURS = 'async Breaker.#run (file:///app/dist/redis/connection.js:10:5)'
const OURS_INSTALLED = 'TurnCalls.add (file:///usr/lib/node_modules/sluice/dist/limits/shared/turn-calls.js:10:5)'

describe('a client library is to blame', () => {
  it('for a promise that it makes and drops', async () => {
    expect(libraryAtFault(await droppedPromise())).toBe('ioredis')
  })

  it('for what it throws in the handler of its socket', async () => {
    expect(libraryAtFault(await thrownBy('*-1\r\n'))).toBe('ioredis')
  })

  it.each([
    [[IN_LIBRARY, IN_NODE], 'ioredis'],
    [['Denque.shift (/app/node_modules/denque/index.js:1:1)', IN_LIBRARY], 'ioredis'],
    [['C (/usr/lib/node_modules/sluice/node_modules/@nats-io/nats-core/lib/protocol.js:1:1)', IN_NODE], 'nats'],
    [['Array.forEach (<anonymous>)', 'new Promise (<anonymous>)', IN_LIBRARY], 'ioredis'],
  ])('where nothing but its code and Node is on the stack: %j', (frames, library) => {
    expect(libraryAtFault(withStack(...frames))).toBe(library)
  })
})

describe('code of ours may be to blame', () => {
  it('for an error that it throws', () => expect(libraryAtFault(new Error('broken invariant'))).toBeNull())

  it('for what a listener of ours throws, called by the library', async () => {
    const client = new Redis({ lazyConnect: true })
    let thrown: unknown = null
    client.on('reconnecting', () => {
      throw new TypeError('ours')
    })
    try {
      client.emit('reconnecting')
    } catch (error) {
      thrown = error
    }
    client.disconnect()
    expect(libraryAtFault(thrown)).toBeNull()
  })

  it('for an error reply, which answers a call of ours', () => {
    const reply = new (ReplyError as new (message: string) => Error)('WRONGTYPE Operation against a key')
    reply.stack = withStack(IN_LIBRARY).stack ?? ''
    expect(libraryAtFault(reply)).toBeNull()
  })

  it.each([
    [[IN_LIBRARY, OURS]],
    [[OURS, IN_LIBRARY, IN_NODE]],
    [[IN_LIBRARY, OURS_INSTALLED]],
    [[IN_LIBRARY, 'x (/app/node_modules/pino/index.js:1:1)']],
    [[IN_NODE]],
    [[]],
  ])('for any other stack: %j', (frames) => {
    expect(libraryAtFault(withStack(...frames))).toBeNull()
  })

  it('where the end of the stack is not known', () => {
    const frames = Array.from({ length: STACK_FRAMES }, () => IN_LIBRARY)
    expect(libraryAtFault(withStack(...frames))).toBeNull()
    expect(libraryAtFault(withStack(...frames.slice(1)))).toBe('ioredis')
  })

  it.each(['thrown text', undefined, { stack: '    at x (/node_modules/ioredis/x.js:1:1)' }])('for %j', (thrown) => {
    expect(libraryAtFault(thrown)).toBeNull()
  })
})
