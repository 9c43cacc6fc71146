// The certificate of the public port is renewed while clients are served: no restart, no connection lost, and a bad file
// changes nothing. SIGHUP reads it at once, and the token and the app file too.

import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { connect, type TLSSocket } from 'node:tls'
import { test as base, expect } from 'vitest'
import { single } from '../support/client.ts'
import { ENGINE } from '../support/engine.ts'
import { aService, makeCertificate, tlsSettings } from '../support/fixture.ts'
import { readPage } from '../support/hostile.ts'
import { rawPost } from '../support/raw-http.ts'
import { appRecord, eventually, type Service, writeApps } from '../support/service.ts'

const apps = [appRecord('plain', { events_per_minute: 1_000_000 })]
const FIRST_TOKEN = 'the-first-token-0123456789'
const SECOND_TOKEN = 'the-second-token-0123456789'

const test = base.extend(
  'service',
  { scope: 'test' },
  aService((dataDir) => {
    const tokenFile = join(dataDir, 'token')
    writeFileSync(tokenFile, FIRST_TOKEN)
    return { apps, env: { ...tlsSettings(dataDir), SLUICE_CONSOLE_TOKEN_FILE: tokenFile } }
  }),
)

async function open({ port }: Service, servername?: string): Promise<TLSSocket> {
  const name = servername === undefined ? {} : { servername }
  const socket = connect({ host: '127.0.0.1', port, rejectUnauthorized: false, ...name })
  await once(socket, 'secureConnect')
  return socket
}

async function send(socket: TLSSocket): Promise<string> {
  socket.write(rawPost(single('ak_plain')))
  const [answer] = (await once(socket, 'data')) as [Buffer]
  return answer.toString('latin1').split('\r\n')[0]
}

/** Whose certificate a new connection is shown, once it has sent an event. */
async function shownTo(service: Service, servername?: string): Promise<string> {
  const socket = await open(service, servername)
  try {
    expect(await send(socket)).toBe('HTTP/1.1 202 Accepted')
    return String(socket.getPeerCertificate().subject.CN)
  } finally {
    socket.destroy()
  }
}

/** The engine of 2024 binds the port anew: a connection that is being made in that moment may be reset. */
function shownUnlessReset(service: Service): Promise<string | null> {
  const shown = shownTo(service, 'sluice.example')
  return ENGINE !== 'old' ? shown : shown.catch(() => null)
}

function renew({ dataDir }: Service, name: string, days?: number): void {
  const fresh = { cert: join(dataDir, 'new-cert.pem'), key: join(dataDir, 'new-key.pem') }
  makeCertificate(fresh, name, days)
  renameSync(fresh.cert, join(dataDir, 'cert.pem'))
  renameSync(fresh.key, join(dataDir, 'key.pem'))
}

test('a changed certificate is shown to new connections, twice over, and open ones go on', async ({ service }) => {
  const kept = await open(service, 'sluice.example')
  expect(await send(kept)).toBe('HTTP/1.1 202 Accepted')
  for (const [name, days] of [
    ['second', 40],
    ['third', 60],
  ] as const) {
    renew(service, name, days)
    await eventually(`${name} is shown`, async () => (await shownUnlessReset(service)) === name)
    expect(await shownTo(service), 'to a client without a server name').toBe(name)
    const { sluice_tls_not_after_seconds: endsAt } = await readPage(service)
    expect(Math.abs(endsAt - (Date.now() / 1000 + days * 86_400))).toBeLessThan(600)
    expect(await send(kept)).toBe('HTTP/1.1 202 Accepted')
  }
  kept.destroy()
  await eventually('every connection is counted out', async () => (await readPage(service))['sluice_connections'] === 0)
})

test.runIf(ENGINE !== 'old')('no connection is refused or reset while certificates change', async ({ service }) => {
  const over = new AbortController()
  const failures: unknown[] = []
  let served = 0
  const clients = Array.from({ length: 8 }, async () => {
    while (!over.signal.aborted) {
      await shownTo(service).then(
        () => (served += 1),
        (error: unknown) => failures.push(error),
      )
    }
  })
  for (const name of ['second', 'third', 'fourth']) {
    renew(service, name)
    service.signal('SIGHUP')
    await eventually(`${name} is shown`, async () => (await shownTo(service)) === name)
  }
  over.abort()
  await Promise.all(clients)
  expect(failures).toEqual([])
  expect(served).toBeGreaterThan(20)
})

test('files that do not work together are named in the log, and the old ones stay', async ({ service }) => {
  writeFileSync(join(service.dataDir, 'cert.pem'), '-----BEGIN CERTIFICATE-----\nno\n-----END CERTIFICATE-----\n')
  await eventually('it is said', () =>
    service.output().includes('new connections go on with the certificate read before'),
  )
  expect(service.output()).toContain('cert.pem')
  expect(await shownTo(service)).toBe('localhost')
  renew(service, 'better')
  await eventually('a good one is used', async () => (await shownUnlessReset(service)) === 'better')
  const said = service.output().split('new connections go on with the certificate read before').length - 1
  expect(said, 'once').toBe(1)
})

test('an end within 14 days is warned of, once', async ({ service }) => {
  const warnings = (): string[] =>
    service
      .output()
      .split('\n')
      .filter((line) => line.includes('no restart is needed'))
  await eventually('it is said', () => warnings().length === 1)
  expect(warnings()[0]).toContain('"level":"warn"')
  renew(service, 'longer', 30)
  await eventually('it is used', async () => (await shownUnlessReset(service)) === 'longer')
  expect(warnings()).toHaveLength(1)
})

test('SIGHUP ends nothing, and certificate, token and app file are read again', async ({ service }) => {
  const kept = await open(service)
  renew(service, 'second')
  writeFileSync(join(service.dataDir, 'token'), SECOND_TOKEN)
  await writeApps(service.appsFile, [...apps, appRecord('more')])
  for (let times = 0; times < 3; times++) service.signal('SIGHUP')
  await eventually('the log says so', () => service.output().includes('SIGHUP: '))
  await eventually('the certificate is new', async () => (await shownUnlessReset(service)) === 'second')
  await eventually('the token is new', async () => {
    const Authorization = `Bearer ${SECOND_TOKEN}`
    const { status } = await fetch(`http://127.0.0.1:${service.adminPort}/api/now`, { headers: { Authorization } })
    return status === 200
  })
  await eventually('the app file was read', () => /app file read again/.test(service.output()))
  expect(await send(kept)).toBe('HTTP/1.1 202 Accepted')
  kept.destroy()
  expect((await service.stop()).code).toBe(0)
})

test.for([false, true])(
  'a pipe in place of a certificate is no file, and a good pair is used after it; asked by SIGHUP: %s',
  async (isAsked, { service }) => {
    const cert = join(service.dataDir, 'cert.pem')
    rmSync(cert)
    execFileSync('mkfifo', [cert])
    if (isAsked) service.signal('SIGHUP')
    await eventually('it is said', () => service.output().includes(`${cert} is not a file`))
    expect(await shownTo(service)).toBe('localhost')
    renew(service, 'better')
    if (isAsked) service.signal('SIGHUP')
    await eventually('the good pair is used', async () => (await shownUnlessReset(service)) === 'better')
  },
)

/** As Kubernetes mounts a Secret: each file is a link through `..data`, which is swapped for all of them at once. */
function mount(folder: string, version: string, write: (to: string) => void): void {
  mkdirSync(join(folder, version), { recursive: true })
  write(join(folder, version))
  symlinkSync(version, join(folder, '..data.new'))
  renameSync(join(folder, '..data.new'), join(folder, '..data'))
}

const mounted = base.extend(
  'service',
  { scope: 'test' },
  aService((dataDir) => {
    const folder = join(dataDir, 'mounted')
    writeMounted(folder, 'first', FIRST_TOKEN, apps)
    for (const name of ['cert.pem', 'key.pem', 'token', 'apps.json']) {
      symlinkSync(join('..data', name), join(folder, name))
    }
    const env = {
      SLUICE_TLS_CERT: join(folder, 'cert.pem'),
      SLUICE_TLS_KEY: join(folder, 'key.pem'),
      SLUICE_CONSOLE_TOKEN_FILE: join(folder, 'token'),
      SLUICE_APPS_FILE: join(folder, 'apps.json'),
    }
    return { apps, env }
  }),
)

function writeMounted(folder: string, name: string, token: string, records: readonly object[]): void {
  mount(folder, name, (to) => {
    makeCertificate({ cert: join(to, 'cert.pem'), key: join(to, 'key.pem') }, name)
    writeFileSync(join(to, 'token'), token)
    writeFileSync(join(to, 'apps.json'), JSON.stringify({ apps: records }))
  })
}

mounted('certificate, token and app file behind ..data are read again when it is swapped', async ({ service }) => {
  expect(await shownTo(service)).toBe('first')
  writeMounted(join(service.dataDir, 'mounted'), 'second', SECOND_TOKEN, [...apps, appRecord('more')])
  await eventually('the certificate is new', async () => (await shownUnlessReset(service)) === 'second')
  await eventually('the token is new', async () => {
    const Authorization = `Bearer ${SECOND_TOKEN}`
    const { status } = await fetch(`http://127.0.0.1:${service.adminPort}/api/now`, { headers: { Authorization } })
    return status === 200
  })
  await eventually('the app file was read', () => /app file read again/.test(service.output()))
})
