// What the client libraries must have for this service to guard their connections.

import { readFileSync } from 'node:fs'
import { MsgHdrsImpl, ProtocolHandler } from '@nats-io/transport-node'
import { Redis } from 'ioredis'
import { afterEach, expect, test, vi } from 'vitest'
import { checkClient } from '../../../src/redis/session.ts'

const { dependencies } = JSON.parse(readFileSync('package.json', 'utf8')) as { dependencies: Record<string, string> }

afterEach(() => {
  vi.restoreAllMocks()
})

function refusalOf(library: string, members: string): string {
  const version = dependencies[library]
  return `${library} ${version} does not fit this version of sluice, which replaces its ${members}: install ${library} ${version}`
}

test('a NATS client without a method that is replaced is refused with its version, each time, and is not touched', async () => {
  const client = ProtocolHandler.prototype as unknown as Record<string, unknown>
  const { prepare } = client
  const decode = MsgHdrsImpl.decode.bind(MsgHdrsImpl)
  // Of a process that has no connection yet.
  vi.resetModules()
  const { guardConnections } = await import('../../../src/nats/guard.ts')
  const refusal = refusalOf('@nats-io/transport-node', 'prepare')
  try {
    client['prepare'] = undefined
    for (let tries = 0; tries < 2; tries += 1) expect(guardConnections).toThrow(refusal)
    expect(client['prepare']).toBeUndefined()
    client['prepare'] = prepare
    expect(guardConnections).not.toThrow()
    expect(client['prepare']).not.toBe(prepare)
  } finally {
    client['prepare'] = prepare
    MsgHdrsImpl.decode = decode
  }
})

test('a Redis client without its queue of calls is refused with its version', async () => {
  await expect(checkClient()).resolves.toBeUndefined()
  const client = Redis.prototype as unknown as { resetCommandQueue: () => void }
  vi.spyOn(client, 'resetCommandQueue').mockReturnValue()
  await expect(checkClient()).rejects.toThrow(refusalOf('ioredis', 'shift'))
})
