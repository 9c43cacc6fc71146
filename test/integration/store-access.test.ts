// Stores that want a credentials file, certificates, or a password that is in a file: the service, its audit and its
// commands all get in, and what the files hold may be replaced while they run.

import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import { describe, expect, it, onTestFinished } from 'vitest'
import { events, get, post, single } from '../support/client.ts'
import { becomesReady } from '../support/cluster.ts'
import { NEW_KEY } from '../support/fixture.ts'
import { NATS_SERVER, needCurrentNats, startNats } from '../support/nats.ts'
import { createNatsOperator } from '../support/nats-credentials.ts'
import { metricsOf } from '../support/processes.js'
import { type Program, startProgram } from '../support/programs.ts'
import { startRedis } from '../support/redis.ts'
import { eventually, makeFolder, runCommand, type Service, startService } from '../support/service.ts'

const APP_KEY = 'ak_access'
const AUDITED_MS = 60_000

async function startConfiguredNats(lines: string, server = NATS_SERVER): Promise<Program> {
  const nats = await startProgram({
    name: 'nats',
    command: ({ port, folder }) => {
      const file = join(folder, 'nats.conf')
      const store = `jetstream { store_dir: ${JSON.stringify(join(folder, 'data'))} }`
      writeFileSync(file, `host: 127.0.0.1\nport: ${port}\n${store}\n${lines}\n`)
      return [server, '--config', file]
    },
  })
  onTestFinished(() => nats.stop())
  return nats
}

async function sharedEnvironment(nats: Readonly<Record<string, string>>): Promise<Readonly<Record<string, string>>> {
  const redis = await startRedis()
  onTestFinished(() => redis.stop())
  return { REDIS_URL: redis.url, ...nats }
}

async function startNode(env: Readonly<Record<string, string>>): Promise<Service> {
  const add = ['apps', 'add', '--app-id', 'access', '--app-key', APP_KEY, '--plan', '5m', '--subscription', 'active']
  const added = await runCommand(add, env)
  expect(added.code, added.output).toBe(0)
  const node = await startService({ dataDir: await makeFolder(), env: { SLUICE_PARSERS: '1', ...env } })
  onTestFinished(() => node.kill())
  await becomesReady(node)
  return node
}

const accepts = async (node: Service): Promise<boolean> => (await post(node, single(APP_KEY))).status === 202

/** The audit has connections of its own, in a thread of its own. */
async function isAudited(node: Service): Promise<boolean> {
  return ((await metricsOf(node)).get('sluice_audit_lag_seconds') ?? Number.NaN) >= 0
}

/** Certificates of a new authority: `server` for localhost, `client` and `next` for clients. */
function makeCertificates(folder: string): (name: string) => string {
  const path = (name: string): string => join(folder, name)
  const openssl = (...args: string[]): unknown => execFileSync('openssl', args, { stdio: 'ignore' })
  const newKey = [...NEW_KEY, '-keyout']
  openssl('req', '-x509', ...newKey, path('ca.key'), '-out', path('ca.pem'), '-days', '2', '-subj', '/CN=authority')
  writeFileSync(path('names'), 'subjectAltName=DNS:localhost,IP:127.0.0.1\n')
  for (const name of ['server', 'client', 'next']) {
    openssl('req', ...newKey, path(`${name}.key`), '-out', path(`${name}.csr`), '-subj', `/CN=${name}`)
    const request = ['-req', '-in', path(`${name}.csr`), '-extfile', path('names'), '-days', '2']
    const authority = ['-CA', path('ca.pem'), '-CAkey', path('ca.key'), '-CAcreateserial']
    openssl('x509', ...request, ...authority, '-out', path(`${name}.pem`))
  }
  return path
}

describe('NATS_CREDS', () => {
  it('lets service, audit and commands in, and is read again when the connection is made again', async () => {
    const operator = createNatsOperator()
    const nats = await startConfiguredNats(operator.configuration)
    const file = join(await makeFolder(), 'sluice.creds')
    writeFileSync(file, operator.newUser())
    const url = `nats://127.0.0.1:${nats.port}`
    const env = await sharedEnvironment({ NATS_URL: url, NATS_CREDS: file })
    const node = await startNode(env)
    expect(await accepts(node)).toBe(true)
    await eventually('the audit works', () => isAudited(node), AUDITED_MS)
    expect((await runCommand(['check'], env)).output).toMatch(/ok +stream /)
    const { stdout } = await runCommand(['tail', '--from-start', '--no-follow'], env)
    expect(stdout).toContain('"app_id":"access"')

    writeFileSync(file, 'nothing that NATS knows')
    await nats.restart()
    await eventually('it says what is wrong with the file', async () =>
      (await get(node.adminPort, '/readyz?verbose')).text.includes('NATS_CREDS: the file holds no JWT and seed'),
    )
    writeFileSync(file, operator.newUser())
    await eventually('another user is let in', () => accepts(node))
    const { NATS_CREDS: _file, ...without } = env
    expect((await runCommand(['check'], without)).output).toMatch(/FAIL +nats .*Authorization Violation/i)
  })
})

describe('NATS_CA, NATS_CERT and NATS_KEY', () => {
  it('let service, audit and commands in, and are read again when the connection is made again', async () => {
    const folder = await makeFolder()
    const path = makeCertificates(folder)
    const quoted = (name: string): string => JSON.stringify(path(name))
    const nats = await startConfiguredNats(
      `tls { cert_file: ${quoted('server.pem')}, key_file: ${quoted('server.key')}, ca_file: ${quoted('ca.pem')}, verify: true }`,
    )
    const env = await sharedEnvironment({
      NATS_URL: `tls://localhost:${nats.port}`,
      NATS_CA: path('ca.pem'),
      NATS_CERT: path('client.pem'),
      NATS_KEY: path('client.key'),
    })
    const node = await startNode(env)
    expect(await accepts(node)).toBe(true)
    await eventually('the audit works', () => isAudited(node), AUDITED_MS)
    expect((await runCommand(['check'], env)).output).toMatch(/ok +stream /)

    // Large messages are written to the socket past the client: what is encrypted must be all of them, and they alone.
    const sent: string[] = []
    for (let turn = 0; turn < 5; turn += 1) {
      const names = Array.from({ length: 20 }, (_, index) => `e${turn}-${index}-${'x'.repeat(100)}`)
      const answers = await Promise.all(
        names.map((name) => post(node, JSON.stringify({ app_key: APP_KEY, events: events(100, { name }) }))),
      )
      expect(answers.map(({ status }) => status)).toEqual(names.map(() => 202))
      sent.push(...names)
    }
    const { stdout } = await runCommand(['tail', '--from-start', '--no-follow', '--records'], env)
    const records = stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as { events: { name: string }[] })
    const large = records.filter((record) => record.events.length === 100)
    expect(large.map((record) => record.events[0].name).toSorted()).toEqual(sent.toSorted())
    for (const record of large) expect(new Set(record.events.map(({ name }) => name)).size).toBe(1)

    const { NATS_CA: _ca, ...strange } = env
    expect((await runCommand(['check'], strange)).output).toMatch(/FAIL +nats .*certificate/)
    const { NATS_CERT: _cert, NATS_KEY: _key, ...nameless } = env
    expect((await runCommand(['check'], nameless)).output).toMatch(/FAIL +nats /)

    // A key that does not belong to the certificate: what is on the disk is read, and nothing that was kept.
    writeFileSync(path('client.key'), readFileSync(path('next.key')))
    await nats.restart()
    await eventually('it says that they do not belong together', async () =>
      /mismatch/i.test((await get(node.adminPort, '/readyz?verbose')).text),
    )
    writeFileSync(path('client.pem'), readFileSync(path('next.pem')))
    await eventually('the next pair is let in', () => accepts(node))
  })

  it('are not sent to a server that offers no TLS', async () => {
    const nats = await startConfiguredNats('')
    const path = makeCertificates(await makeFolder())
    const env = await sharedEnvironment({ NATS_URL: `nats://127.0.0.1:${nats.port}`, NATS_CA: path('ca.pem') })
    expect((await runCommand(['check'], env)).output).toMatch(/FAIL +nats .*tls/i)
  })

  it('reach a server that says nothing before the TLS handshake', async (context) => {
    const path = makeCertificates(await makeFolder())
    const [cert, key] = [path('server.pem'), path('server.key')].map((file) => JSON.stringify(file))
    // It cuts off who has not begun one by then, before the service does.
    const tls = `tls { cert_file: ${cert}, key_file: ${key}, handshake_first: true, timeout: 1 }`
    const nats = await startConfiguredNats(tls, needCurrentNats(context))
    const env = await sharedEnvironment({ NATS_URL: `tls://localhost:${nats.port}`, NATS_CA: path('ca.pem') })
    const node = await startNode(env)
    expect(await accepts(node)).toBe(true)
    expect((await runCommand(['check'], env)).output).toMatch(/ok +stream /)
  })
})

describe('REDIS_CA, REDIS_CERT and REDIS_KEY', () => {
  it('let service, audit and commands in, and are read again when the connection is made again', async () => {
    const path = makeCertificates(await makeFolder())
    const redis = await startProgram({
      name: 'redis-tls',
      command: ({ port, folder }) => {
        const files = ['--tls-cert-file', path('server.pem'), '--tls-key-file', path('server.key')]
        const clients = ['--tls-ca-cert-file', path('ca.pem'), '--tls-auth-clients', 'yes']
        const listening = ['--port', '0', '--tls-port', String(port), '--bind', '127.0.0.1', '--dir', folder]
        return ['redis-server', ...listening, ...files, ...clients, '--save', '', '--logfile', '']
      },
    })
    onTestFinished(() => redis.stop())
    const nats = await startNats()
    onTestFinished(() => nats.stop())
    // A named file makes TLS required, whatever the URL says.
    const env = {
      REDIS_URL: `redis://127.0.0.1:${redis.port}`,
      NATS_URL: nats.url,
      REDIS_CA: path('ca.pem'),
      REDIS_CERT: path('client.pem'),
      REDIS_KEY: path('client.key'),
    }
    const node = await startNode(env)
    expect(await accepts(node)).toBe(true)
    await eventually('the audit works', () => isAudited(node), AUDITED_MS)
    expect((await runCommand(['check'], env)).output).toMatch(/redis +ok |ok +redis /)
    const { REDIS_CA: _ca, ...strange } = env
    expect((await runCommand(['check'], strange)).output).toMatch(/FAIL +redis .*cert/i)
    const { REDIS_CERT: _cert, REDIS_KEY: _key, ...nameless } = env
    expect((await runCommand(['check'], nameless)).output).toMatch(/FAIL +redis /)

    writeFileSync(path('client.key'), readFileSync(path('next.key')))
    await redis.restart()
    await eventually('it says that they do not belong together', async () =>
      /mismatch/i.test((await get(node.adminPort, '/readyz?verbose')).text),
    )
    writeFileSync(path('client.pem'), readFileSync(path('next.pem')))
    await eventually('the next pair is let in', async () =>
      (await get(node.adminPort, '/readyz?verbose')).text.includes('limits: ok'),
    )
  })
})

describe('a value in a file', () => {
  it('lets service and commands in, and is read again at each connection and login', async () => {
    const folder = await makeFolder()
    const file = (name: string): string => join(folder, name)
    const redis = await startRedis(['--requirepass', 'first'])
    onTestFinished(() => redis.stop())
    const nats = await startNats()
    onTestFinished(() => nats.stop())
    const redisUrl = (password: string): string => `redis://:${password}@127.0.0.1:${redis.port}\n`
    writeFileSync(file('redis'), redisUrl('first'))
    writeFileSync(file('nats'), `${nats.url}\n`)
    writeFileSync(file('token'), 'the-first-token-of-all\n')
    const env = {
      REDIS_URL_FILE: file('redis'),
      NATS_URL_FILE: file('nats'),
      SLUICE_CONSOLE_TOKEN_FILE: file('token'),
    }
    const node = await startNode(env)
    expect(await accepts(node)).toBe(true)
    await eventually('the audit works', () => isAudited(node), AUDITED_MS)
    expect((await runCommand(['check'], env)).output).toMatch(/ok +stream /)

    const statusFor = async (token: string): Promise<number> => {
      const url = `http://127.0.0.1:${node.adminPort}/api/now`
      return (await fetch(url, { headers: { Authorization: `Bearer ${token}` } })).status
    }
    expect(await statusFor('the-first-token-of-all')).toBe(200)
    writeFileSync(file('token'), 'the-second-token-of-all')
    await eventually('the new token opens', async () => (await statusFor('the-second-token-of-all')) === 200)
    // More than ten wrong ones in a second, as the wait above has sent them, are 429.
    await expect.poll(() => statusFor('the-first-token-of-all')).toBe(401)
    // What is no token closes nothing and opens nothing.
    writeFileSync(file('token'), 'short')
    expect(await statusFor('the-second-token-of-all')).toBe(200)
    await expect.poll(() => statusFor('short')).toBe(401)

    const admin = new Redis(redis.port, { password: 'first' })
    await admin.config('SET', 'requirepass', 'second')
    writeFileSync(file('redis'), redisUrl('second'))
    await admin.call('CLIENT', 'KILL', 'SKIPME', 'yes')
    admin.disconnect()
    await eventually('Redis is reached with the new password', async () =>
      (await get(node.adminPort, '/readyz?verbose')).text.includes('limits: ok'),
    )

    // The server has moved: the old port answers nobody.
    const moved = await startNats()
    onTestFinished(() => moved.stop())
    writeFileSync(file('nats'), moved.url)
    await nats.stop()
    await eventually('NATS is reached where it is now', async () =>
      (await get(node.adminPort, '/readyz?verbose')).text.includes('queue: ok'),
    )
  })

  it('is named where it cannot be read, is empty, or is given twice', async () => {
    const empty = join(await makeFolder(), 'empty')
    writeFileSync(empty, '\n')
    const env = { REDIS_URL_FILE: empty, NATS_URL_FILE: '/nowhere/nats', NATS_URL: 'nats://127.0.0.1:1' }
    const { code, output } = await runCommand(['check'], env)
    expect(code).not.toBe(0)
    expect(output).toContain(`REDIS_URL_FILE: ${empty} is empty`)
    expect(output).toContain('NATS_URL_FILE: give it or NATS_URL, not both')
  })
})
