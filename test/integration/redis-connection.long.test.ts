// The link to Redis, held to real servers that are killed, frozen, slowed, cut and refused.

import { execFileSync, spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import { describe, expect, it, onTestFinished } from 'vitest'
import { openRedis, type RedisConnection, untilUp } from '../../src/redis/connection.ts'
import type { RedisClient } from '../../src/redis/link.ts'
import type { CallResult } from '../../src/redis/pending-calls.ts'
import { freePort, startProgram } from '../support/programs.ts'
import { type Proxy, startProxy } from '../support/proxy.ts'
import { callOn, type RedisServer, startRedis, startRedisCluster } from '../support/redis.ts'
import { eventually, runCommand, sleep } from '../support/service.ts'

const UP_TIMEOUT_MS = 10_000

/** A link tries again at least three times meanwhile; its tries show nowhere. */
const SOME_TRIES_MS = 1000
/** Longer than one try may take at a frozen server (3 s). */
const MANY_TRIES_MS = 4000
/** Its connection is made, and waits for the greeting. */
const CONNECTING_MS = 300
const CALL_PAUSE_MS = 5
const UP = { state: 'ok', reason: null }

async function aServer(extra: readonly string[] = []): Promise<RedisServer> {
  const server = await startRedis(extra)
  onTestFinished(() => server.stop())
  return server
}

async function aProxy(port: number): Promise<Proxy> {
  const proxy = await startProxy(port)
  return proxy
}

interface Watched {
  readonly link: RedisConnection
  readonly notices: string[]
  readonly changes: boolean[]
  readonly results: CallResult[]
}

function watched(url: string, budgetMs?: number): Watched {
  const notices: string[] = []
  const changes: boolean[] = []
  const results: CallResult[] = []
  const link = openRedis({
    redis: url,
    ...(budgetMs === undefined ? {} : { budgetMs }),
    onNotice: (message) => void notices.push(message),
    onCall: (result) => void results.push(result),
  })
  link.onChange((isUp) => void changes.push(isUp))
  onTestFinished(() => link.stop())
  return { link, notices, changes, results }
}

async function connected(url: string, budgetMs?: number): Promise<Watched> {
  const made = watched(url, budgetMs)
  expect(await untilUp(made.link, UP_TIMEOUT_MS)).toBe(true)
  return made
}

const isBack = (link: RedisConnection) => eventually('Redis is back', () => link.isUp)
const isAway = (link: RedisConnection) => eventually('Redis is away', () => !link.isUp)
const ping = (client: RedisClient) => client.ping()

describe('a link to Redis', () => {
  it('connects in the background, and returns the answers of Redis', async () => {
    const server = await aServer()
    const { link, notices, changes } = watched(server.url)
    expect([link.isUp, link.hasBeenUp, link.status]).toEqual([false, false, { state: 'starting', reason: null }])
    expect(await callOn(link, ping)).toBe('away')
    await isBack(link)
    expect([link.isUp, link.hasBeenUp, link.status]).toEqual([true, true, UP])
    expect(await callOn(link, (client) => client.incrby('n', 41))).toBe(41)
    expect(await Promise.all([1, 2, 3].map((by) => callOn(link, (client) => client.incrby('n', by))))).toEqual([
      42, 44, 47,
    ])
    expect([notices, changes]).toEqual([[], [true]])
  })

  it('rejects with an error reply that is a bug of the caller, and stays up', async () => {
    const { link, changes } = await connected((await aServer()).url)
    await callOn(link, (client) => client.set('text', 'a'))
    await expect(callOn(link, (client) => client.incr('text'))).rejects.toThrow('not an integer')
    await expect(callOn(link, () => Promise.reject(new TypeError('ours')))).rejects.toThrow('ours')
    await expect(
      callOn(link, () => {
        throw new TypeError('at once')
      }),
    ).rejects.toThrow('at once')
    expect(await callOn(link, ping)).toBe('PONG')
    expect(changes).toEqual([true])
  })

  it('that is stopped answers the calls under way, and no later ones', async () => {
    const { link, changes, notices } = await connected((await aServer()).url)
    const under = callOn(link, (client) => client.set('last', 'word'))
    await link.stop()
    expect(await under).toBe('OK')
    expect(await callOn(link, ping)).toBe('away')
    expect([changes, notices]).toEqual([[true, false], []])
  })

  it('that never connected can be stopped', async () => {
    const { link, notices } = watched(`redis://:secret@127.0.0.1:${await freePort()}`)
    await eventually('it said so', () => notices.length > 0)
    await link.stop()
    expect(notices).toEqual([
      'Redis is away: connection refused; enforcing the local share of each limit until Redis is back',
    ])
    expect([link.isUp, link.hasBeenUp]).toEqual([false, false])
  })

  it('leaves no connection behind when it is stopped while Redis is frozen', async () => {
    const server = await aServer()
    server.freeze()
    const { link } = watched(server.url)
    await sleep(CONNECTING_MS)
    await link.stop()
    server.resume()
    const direct = new Redis(server.url)
    onTestFinished(() => direct.disconnect())
    await eventually(
      'only this client is left',
      async () => !String(await direct.client('LIST')).includes('name=sluice'),
    )
  })
})

describe('a Redis that is away', () => {
  it('at the start is waited for, and logged once', async () => {
    const server = await aServer()
    await server.kill()
    const { link, notices, changes } = watched(server.url)
    await eventually('it said so', () => notices.length > 0)
    await sleep(SOME_TRIES_MS)
    expect(notices).toEqual([
      'Redis is away: connection refused; enforcing the local share of each limit until Redis is back',
    ])
    expect(await callOn(link, ping)).toBe('away')
    await server.restart()
    await isBack(link)
    expect(notices[1]).toMatch(/^Redis is back after \d+\.\d s$/)
    expect([notices.length, changes]).toEqual([2, [true]])
  })

  it.each([false, true])('after kill -9 is found again once it is back (empty: %s)', async (empty) => {
    const server = await aServer()
    const { link, notices, changes } = await connected(server.url)
    await callOn(link, (client) => client.set('kept', 'yes'))
    await server.kill()
    await isAway(link)
    expect(await callOn(link, ping)).toBe('away')
    await sleep(SOME_TRIES_MS)
    await server.restart({ empty })
    await isBack(link)
    expect(await callOn(link, (client) => client.get('kept'))).toBe(empty ? null : 'yes')
    expect(changes).toEqual([true, false, true])
    expect(notices[0]).toBe(
      'Redis is away: connection lost; enforcing the local share of each limit until Redis is back',
    )
    expect(notices.at(-1)).toMatch(/^Redis is back after/)
  })

  it('after a cut connection: every call is answered away at once', async () => {
    const server = await aServer()
    const proxy = await aProxy(server.port)
    const { link } = await connected(`redis://127.0.0.1:${proxy.port}`, 60_000)
    proxy.hold()
    const calls = Array.from({ length: 50 }, () => callOn(link, ping))
    proxy.cut()
    expect(new Set(await Promise.all(calls))).toEqual(new Set(['away']))
    expect(link.isUp).toBe(false)
    proxy.heal()
    await isBack(link)
  })

  it('because it is frozen: every call is answered away within the budget, and later ones at once', async () => {
    const server = await aServer()
    const { link, notices, changes } = await connected(server.url)
    server.freeze()
    const calls = Array.from({ length: 50 }, () => callOn(link, (client) => client.incr('late')))
    expect(new Set(await Promise.all(calls))).toEqual(new Set(['away']))
    expect([link.isUp, link.status]).toEqual([false, { state: 'away', reason: 'no answer in 250 ms' }])
    let settled = 0
    for (let call = 0; call < 50; call++) void callOn(link, (client) => client.incr('late')).then(() => settled++)
    await Promise.resolve()
    await Promise.resolve()
    expect(settled).toBe(50)
    await sleep(MANY_TRIES_MS)
    expect(changes).toEqual([true, false])
    server.resume()
    await isBack(link)
    // What lay in the socket was done late; what was asked while the link was down was never sent.
    expect(Number(await callOn(link, (client) => client.get('late')))).toBeLessThanOrEqual(50)
    expect(notices.filter((notice) => notice.includes('no answer in 250 ms'))).toHaveLength(1)
    expect(notices.at(-1)).toMatch(/^Redis is back after/)
  })

  it('because it is slow is not used until it is quick again', async () => {
    const server = await aServer()
    const proxy = await aProxy(server.port)
    const { link, notices } = await connected(`redis://127.0.0.1:${proxy.port}`, 60)
    proxy.delay(40)
    // 80 ms a call: beyond the budget, however quick the machine.
    expect(await callOn(link, ping)).toBe('away')
    await isAway(link)
    proxy.heal()
    await isBack(link)
    expect(notices).toEqual([
      'Redis is away: no answer in 60 ms; enforcing the local share of each limit until Redis is back',
      expect.stringMatching(/^Redis is back after/) as string,
    ])
  })

  it('is not declared away when this process itself was slow', async () => {
    const server = await aServer()
    const { link, changes, results } = await connected(server.url)
    for (const blockMs of [100, 240, 400, 2000]) {
      const calls = Array.from({ length: 100 }, () => callOn(link, ping))
      const untilMs = performance.now() + blockMs
      while (performance.now() < untilMs);
      expect(new Set(await Promise.all(calls))).toEqual(new Set(['PONG']))
    }
    expect([changes, link.status, results.length]).toEqual([[true], UP, 400])
  })
})

describe('a Redis that stops for a moment', () => {
  /** Calls as a busy node makes them, until `isOver`. */
  async function callsUntil(link: RedisConnection, isOver: () => boolean): Promise<void> {
    const calls: Promise<unknown>[] = []
    while (!isOver()) {
      calls.push(callOn(link, (client) => client.incr('calls')))
      await sleep(CALL_PAUSE_MS)
    }
    await Promise.all(calls)
  }

  it.each([100, 240])('of %i ms is waited for', async (stopMs) => {
    const server = await aServer()
    // A machine that is busy adds to the stop: the budget leaves room for that.
    const { link, changes, results } = await connected(server.url, 1000)
    server.freeze()
    let isOver = false
    const calling = callsUntil(link, () => isOver)
    await sleep(stopMs)
    server.resume()
    isOver = true
    await calling
    expect([changes, new Set(results)]).toEqual([[true], new Set(['answered'])])
  })

  it('of 400 ms costs a node that makes one call only that answer', async () => {
    const server = await aServer()
    const { link, changes, results } = await connected(server.url)
    server.freeze()
    const call = callOn(link, (client) => client.incr('calls'))
    expect(await call).toBe('away')
    expect([link.isUp, link.status]).toEqual([true, { state: 'slow', reason: 'no answer in 250 ms' }])
    server.resume()
    await eventually('it answers in time', () => link.status.state === 'ok')
    expect(await callOn(link, (client) => client.incr('calls'))).toBe(2)
    expect([changes, results]).toEqual([[true], ['slow', 'answered']])
  })

  const AWAY_MS = 1700
  it.each(['frozen', 'paused by CLIENT PAUSE'])('for 2 s is away for that time, and found again: %s', async (how) => {
    const server = await aServer()
    const { link, changes, notices, results } = await connected(server.url)
    const direct = new Redis(server.url)
    onTestFinished(() => direct.disconnect())
    if (how === 'frozen') server.freeze()
    else await direct.client('PAUSE', 2000)
    await callsUntil(link, () => !link.isUp)
    expect(await callOn(link, ping)).toBe('away')
    if (how === 'frozen') {
      await sleep(AWAY_MS)
      server.resume()
    }
    await isBack(link)
    expect(await callOn(link, ping)).toBe('PONG')
    expect(changes).toEqual([true, false, true])
    expect(notices).toEqual([
      expect.stringMatching(/^Redis is away: no answer in 250 ms; /) as string,
      ...notices.slice(1, -1),
      expect.stringMatching(/^Redis is back after/) as string,
    ])
    expect(results.filter((result) => result === 'slow').length).toBeGreaterThanOrEqual(3)
  })
})

describe('a Redis that refuses', () => {
  it('the password is away until it accepts it, and no notice contains it', async () => {
    const server = await aServer(['--requirepass', 'right'])
    const { link, notices } = watched(`redis://:wr%6Fng-secret@127.0.0.1:${server.port}`)
    await eventually('it said so', () => notices.length > 0)
    const direct = new Redis({ port: server.port, password: 'right' })
    onTestFinished(() => direct.disconnect())
    await direct.config('SET', 'requirepass', 'wrong-secret')
    await isBack(link)
    expect(notices[0]).toBe(
      'Redis is away: it refuses the user name or the password (WRONGPASS); enforcing the local share of each limit until Redis is back',
    )
    expect(notices.join()).not.toContain('secret')
  })

  it('to work without a password says so', async () => {
    const { notices } = watched((await aServer(['--requirepass', 'right'])).url)
    await eventually('it said so', () => notices.length > 0)
    expect(notices[0]).toBe(
      'Redis is away: it wants a password (NOAUTH); enforcing the local share of each limit until Redis is back',
    )
  })

  it('more connections says so, in the log and to `sluice check`', async () => {
    const server = await aServer()
    const { link, notices } = await connected(server.url)
    const direct = new Redis(server.url, { retryStrategy: null })
    onTestFinished(() => direct.disconnect())
    await direct.config('SET', 'maxclients', '1')
    await direct.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')
    const words = 'ERR max number of clients reached (maxclients)'
    const line = `Redis is away: ${words}; enforcing the local share of each limit until Redis is back`
    await eventually('it said so', () => notices.includes(line))
    const { notices: ofOther } = watched(server.url)
    await eventually('a new one said so', () => ofOther.length > 0)
    expect(ofOther[0]).toBe(line)
    const { code, output } = await runCommand(['check'], { REDIS_URL: server.url, NATS_URL: 'nats://127.0.0.1:1' })
    expect(code).toBe(1)
    expect(output).toContain(words)
    await direct.config('SET', 'maxclients', '1000')
    await isBack(link)
  })

  it('nothing is reached with the user, password and database of the URL', async () => {
    const server = await aServer()
    const root = new Redis(server.url)
    onTestFinished(() => root.disconnect())
    await root.acl('SETUSER', 'node', 'on', '>p%40ss', '~*', '+@all')
    const { link } = await connected(`redis://node:p%2540ss@127.0.0.1:${server.port}/3`)
    expect(await callOn(link, (client) => client.acl('WHOAMI'))).toBe('node')
    await callOn(link, (client) => client.set('here', '3'))
    const direct = new Redis({ port: server.port, db: 3 })
    onTestFinished(() => direct.disconnect())
    expect(await direct.get('here')).toBe('3')
  })

  it('the database of the URL is away: no other database is used', async () => {
    const server = await aServer()
    const { link, notices } = watched(`${server.url}/99`)
    await eventually('it said so', () => notices.length > 0)
    expect(notices[0]).toBe(
      'Redis is away: ERR DB index is out of range; enforcing the local share of each limit until Redis is back',
    )
    expect(link.hasBeenUp).toBe(false)
  })

  it.each([
    { why: 'full', set: ['maxmemory', '1'], unset: ['maxmemory', '0'], notice: 'its memory is full (maxmemory) (OOM)' },
    {
      why: 'too few replicas',
      set: ['min-replicas-to-write', '1'],
      unset: ['min-replicas-to-write', '0'],
      notice: 'it has too few replicas to take writes (NOREPLICAS)',
    },
  ])('writes is away until it takes them again: $why', async ({ set, unset, notice }) => {
    const server = await aServer()
    const { link, notices, changes } = await connected(server.url)
    const direct = new Redis(server.url)
    onTestFinished(() => direct.disconnect())
    await direct.config('SET', set[0], set[1])
    expect(await callOn(link, (client) => client.eval('return redis.call("SET", KEYS[1], "v")', 1, 'key'))).toBe('away')
    expect(link.isUp).toBe(false)
    await sleep(SOME_TRIES_MS)
    expect([link.isUp, notices]).toEqual([
      false,
      [`Redis is away: ${notice}; enforcing the local share of each limit until Redis is back`],
    ])
    await direct.config('SET', unset[0], unset[1])
    await isBack(link)
    expect(changes).toEqual([true, false, true])
  })

  it.each([
    { what: 'scripts', rule: '-@scripting', reason: 'its user may not run the commands that are needed (NOPERM)' },
    { what: 'writes in scripts', rule: '-set', reason: 'its user may not run the commands that are needed (NOPERM)' },
  ])('$what to its user is away until it allows them', async ({ rule, reason }) => {
    const server = await aServer()
    const direct = new Redis(server.url)
    onTestFinished(() => direct.disconnect())
    await direct.acl('SETUSER', 'default', rule)
    const { link, notices } = watched(server.url)
    await eventually('it said so', () => notices.length > 0)
    expect([link.hasBeenUp, link.status]).toEqual([false, { state: 'away', reason }])
    expect(notices).toEqual([`Redis is away: ${reason}; enforcing the local share of each limit until Redis is back`])
    await direct.acl('SETUSER', 'default', '+@all')
    await isBack(link)
  })

  it.each(['EVALSHA', 'EVAL', 'SCRIPT'])(
    '%s because it was renamed is away only if scripts cannot run without it',
    async (name) => {
      const renamed = name === 'SCRIPT' ? ['EVAL', name] : [name]
      const server = await aServer(renamed.flatMap((command) => ['--rename-command', command, `not-${command}`]))
      const { link, notices } = watched(server.url)
      if (name === 'EVAL') await isBack(link)
      else {
        await eventually('it said so', () => notices.length > 0)
        const missing = name === 'EVALSHA' ? 'EVALSHA' : 'EVAL'
        expect(link.status).toEqual({ state: 'away', reason: `it does not know the command ${missing}` })
      }
    },
  )

  it('writes because it is a replica is away from the start', async () => {
    const [master, server] = [await aServer(), await aServer()]
    const direct = new Redis(server.url)
    onTestFinished(() => direct.disconnect())
    await direct.replicaof('127.0.0.1', master.port)
    const { link, notices } = watched(server.url)
    await eventually('it said so', () => notices.length > 0)
    expect([link.hasBeenUp, link.status]).toEqual([
      false,
      { state: 'away', reason: 'it is a replica, and takes no writes (READONLY)' },
    ])
  })

  it('writes because it has become a replica is away, though it answers', async () => {
    const [master, server] = [await aServer(), await aServer()]
    const { link, notices } = await connected(server.url)
    const direct = new Redis(server.url)
    onTestFinished(() => direct.disconnect())
    await direct.replicaof('127.0.0.1', master.port)
    expect(await callOn(link, (client) => client.set('key', 'v'))).toBe('away')
    await sleep(SOME_TRIES_MS)
    expect(link.isUp).toBe(false)
    expect(notices[0]).toBe(
      'Redis is away: it is a replica, and takes no writes (READONLY); enforcing the local share of each limit until Redis is back',
    )
    await direct.replicaof('NO', 'ONE')
    await isBack(link)
  })
})

describe('a Redis Cluster', () => {
  it('is detected, takes keys of every slot, and is away while one of its nodes is', async () => {
    const cluster = await startRedisCluster()
    const { link, notices } = await connected(`${cluster.url}/5`)
    expect(notices).toEqual(['REDIS_URL names database 5, but a Redis Cluster has only database 0: using that one'])
    const keys = Array.from({ length: 60 }, (_, at) => `key-${at}`)
    await Promise.all(keys.map((key) => callOn(link, (client) => client.set(key, key))))
    expect(await Promise.all(keys.map((key) => callOn(link, (client) => client.get(key))))).toEqual(keys)

    cluster.nodes[1].freeze()
    const during = await Promise.all(keys.map((key) => callOn(link, (client) => client.get(key))))
    expect(during).toContain('away')
    expect(link.isUp).toBe(false)
    await sleep(SOME_TRIES_MS)
    expect(link.isUp).toBe(false)
    cluster.nodes[1].resume()
    await isBack(link)
    expect(await Promise.all(keys.map((key) => callOn(link, (client) => client.get(key))))).toEqual(keys)
  })

  it('is found again through its other nodes when the host of the URL is gone', async () => {
    const cluster = await startRedisCluster()
    for (const { port } of cluster.nodes) {
      const direct = new Redis({ port })
      await direct.config('SET', 'cluster-require-full-coverage', 'no')
      direct.disconnect()
    }
    const { link } = await connected(cluster.url)
    const other = new Redis({ port: cluster.nodes[1].port })
    onTestFinished(() => other.disconnect())
    await cluster.nodes[0].kill()
    await isAway(link)
    // What the first node held passes to the second, as after a failover.
    await other.call('CLUSTER', 'BUMPEPOCH')
    const slots = Array.from({ length: 5462 }, (_, slot) => slot)
    for (const slot of slots)
      void other.call('CLUSTER', 'SETSLOT', slot, 'NODE', String(await other.call('CLUSTER', 'MYID')))
    await isBack(link)
    expect(await callOn(link, (client) => client.set('foo', 'bar'))).toBe('OK')
  })
})

describe('a Redis behind TLS', () => {
  /** What a process of its own makes of it, since Node reads its certificates at its start. */
  function pingFrom(url: string, environment: Record<string, string>): string {
    const connection = join(import.meta.dirname, '../../dist/redis/connection.js')
    const program = `
      import { openRedis, untilUp } from ${JSON.stringify(connection)}
      const link = openRedis({ redis: ${JSON.stringify(url)}, budgetMs: 2000, onNotice: (message) => console.log(message) })
      if (await untilUp(link, 3000)) console.log(await link.call((client) => client.ping(), (reply) => reply))
      await link.stop()`
    const args = ['--input-type=module', '--eval', program]
    return spawnSync(process.execPath, args, { env: { ...process.env, ...environment }, encoding: 'utf8' }).stdout
  }

  it('is reached by rediss:// if its certificate is trusted; otherwise the notice says why not', async () => {
    const server = await startProgram({
      name: 'redis-tls',
      command: ({ port, folder }) => {
        const [certificate, key] = [join(folder, 'cert.pem'), join(folder, 'key.pem')]
        const names = ['-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost,IP:127.0.0.1']
        const made = [
          'req',
          '-x509',
          '-newkey',
          'rsa:2048',
          '-nodes',
          '-days',
          '1',
          '-keyout',
          key,
          '-out',
          certificate,
        ]
        execFileSync('openssl', [...made, ...names], { stdio: 'ignore' })
        const tls = ['--tls-cert-file', certificate, '--tls-key-file', key, '--tls-ca-cert-file', certificate]
        const listening = ['--port', '0', '--tls-port', String(port), '--bind', '127.0.0.1', '--tls-auth-clients', 'no']
        return ['redis-server', ...listening, ...tls, '--save', '', '--logfile', '']
      },
    })
    onTestFinished(() => server.stop())
    const url = `rediss://127.0.0.1:${server.port}`
    expect(pingFrom(url, { NODE_EXTRA_CA_CERTS: join(server.folder, 'cert.pem') })).toBe('PONG\n')
    expect(pingFrom(url, {})).toMatch(
      /^Redis is away: \S*SELF_SIGNED\S*; enforcing the local share of each limit until Redis is back\n$/,
    )
  })
})
