// Every route of every listener, asked with every kind of credential, on a running service (test/cases/credentials.ts).

import { readFileSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { request } from 'node:http'
import { hostname } from 'node:os'
import { resolve } from 'node:path'
import { beforeAll, expect, it } from 'vitest'
import { parse } from 'yaml'
import { CREDENTIALS, type Credential, LISTENERS, type Listener, ROUTES, type Route } from '../cases/credentials.ts'
import { batch, event, post, send } from '../support/client.ts'
import { appRecord, eventually, runCommand, type Service, startService } from '../support/service.ts'

const UUID = '0199f3a0-7c1e-7d2a-9f5b-3e8c1a2b4c6d'
const TOKEN = 'a-token-of-twenty-characters'
const READING = 'another-one-for-reading-alone'
const PAGES: Readonly<Record<Listener, string>> = {
  ingest: 'openapi.yaml',
  admin: 'openapi-admin.yaml',
  portal: 'openapi-portal.yaml',
}
/** A page of the service itself, as a browser names it. */
const OWN_PAGE = { Host: 'localhost', Origin: 'http://localhost' }

interface Shown {
  /** As a bearer, and in a body that wants a credential; null: a cookie or nothing. */
  readonly token: string | null
  readonly headers: Readonly<Record<string, string>>
}

let service: Service
let shown: Readonly<Record<Credential, Shown>>
let asked = 0

beforeAll(async () => {
  service = await startService({
    apps: [appRecord('tulip'), appRecord('walrus')],
    env: {
      SLUICE_CONSOLE_TOKEN: TOKEN,
      SLUICE_CONSOLE_READ_TOKEN: READING,
      SLUICE_PORTAL_PORT: '0',
      SLUICE_TRUSTED_PROXIES: '127.0.0.1',
    },
  })
  const keyOf = async (...args: string[]): Promise<string> => {
    const { stdout } = await runCommand(['apps', 'read-key', ...args], { SLUICE_DATA_DIR: service.dataDir })
    return stdout.split('\n')[0] ?? ''
  }
  const expired = await keyOf('tulip', '--name', 'old', '--expires', '1h')
  const records = readFileSync(service.appsFile, 'utf8')
  await writeFile(service.appsFile, records.replace(/"expires_at": "[^"]+"/, '"expires_at": "2020-01-01T00:00:00Z"'))
  // Made last: where they are known, so is the end of the other.
  const other = await keyOf('walrus')
  const read = await keyOf('tulip')
  const sessionOf = async (port: number, token: string): Promise<Shown> => {
    let cookie = ''
    await eventually('a session is opened', async () => {
      const { status, headers } = await send({ port }, { path: '/api/session', body: JSON.stringify({ token }) })
      cookie = (headers['set-cookie']?.[0] ?? '').replace(/;.*/, '')
      return status === 204
    })
    return { token: null, headers: { Cookie: cookie } }
  }
  const { adminPort, portalPort } = service
  const ofPage = await sessionOf(adminPort, TOKEN)
  shown = {
    none: { token: null, headers: {} },
    'wrong token': bearer('not-a-token-of-this-service'),
    'app key': bearer('ak_tulip'),
    'read key': bearer(read),
    'read key of another app': bearer(other),
    'expired read key': bearer(expired),
    'portal session': await sessionOf(portalPort, read),
    'console token': bearer(TOKEN),
    'reading token': bearer(READING),
    'console session': await sessionOf(adminPort, TOKEN),
    'console session of its page': { token: null, headers: { ...ofPage.headers, ...OWN_PAGE } },
  }
  for (const app of ['tulip', 'walrus']) {
    await post(service, batch(`ak_${app}`, 1, { events: [event({ name: `of ${app}` })] }))
    await post(service, batch(`ak_${app}`, 1, { events: [{ type: `of ${app}` }] }))
  }
})

function bearer(token: string): Shown {
  return { token, headers: { Authorization: `Bearer ${token}` } }
}

/** Each from an address of its own, so that wrong ones are not slowed. Of a stream, its first piece. */
function ask(route: Route, credential: Credential): Promise<{ readonly answer: string; readonly text: string }> {
  const { listener, method, path, query = '', body } = route
  const { token, headers } = shown[credential]
  const ports = { ingest: service.port, admin: service.adminPort, portal: service.portalPort }
  const address = path
    .replace('{batch_id}', UUID)
    .replace('{app_id}', 'tulip')
    .replace('{made}', `made-${CREDENTIALS.indexOf(credential)}`)
    .replace('{name}', 'web')
  const inBody = listener === 'ingest' ? batch(token ?? '', 1, token === null ? { app_key: undefined } : {}) : ''
  const text = body === 'credential' ? inBody || JSON.stringify(token === null ? {} : { token }) : body
  asked += 1
  return new Promise((done, fail) => {
    const outgoing = request(
      {
        host: '127.0.0.1',
        port: ports[listener],
        method,
        path: address + query,
        headers: {
          ...headers,
          ...(text === undefined
            ? {}
            : { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(text) }),
          'X-Forwarded-For': `198.51.${Math.floor(asked / 250)}.${asked % 250}`,
        },
        agent: false,
      },
      (response) => {
        let said = ''
        const status = response.statusCode ?? 0
        const end = (): void => {
          const code = /^\{"(?:error|status)":"(\w+)"/.exec(said)?.[1]
          outgoing.destroy()
          done({
            answer: status >= 400 && code !== undefined ? `${status} ${code}` : String(status),
            text: `${JSON.stringify(response.headers)}${said}`,
          })
        }
        response.setEncoding('utf8').on('data', (piece: string) => {
          said += piece
          if (response.headers['content-type']?.startsWith('text/event-stream')) end()
        })
        response.once('end', end)
        response.on('error', () => {})
      },
    )
    outgoing.on('error', fail)
    outgoing.end(text)
  })
}

it('every documented route is in the table', () => {
  for (const listener of LISTENERS) {
    const page = readFileSync(resolve(import.meta.dirname, '../..', PAGES[listener]), 'utf8')
    const { paths } = parse(page) as { paths: Readonly<Record<string, object>> }
    const documented = Object.entries(paths).flatMap(([path, methods]) =>
      Object.keys(methods)
        .filter((method) => /^(get|put|post|delete)$/.test(method))
        .map((method) => `${method.toUpperCase()} ${path}`),
    )
    const rows = ROUTES.filter((route) => route.listener === listener)
    const known = new Set(rows.map(({ method, path }) => `${method} ${path.replace('{made}', '{app_id}')}`))
    expect(documented.filter((route) => !known.has(route))).toEqual([])
  }
})

it.each([
  ['read key', 'tulip'],
  ['read key of another app', 'walrus'],
] as const)('there is something to show to the %s', async (credential, app) => {
  const [events, refusals] = await Promise.all(
    ['/api/events', '/api/refusals'].map((path) =>
      ask({ listener: 'portal', method: 'GET', path, answers: { others: '' } }, credential),
    ),
  )
  expect(events.text).toContain(`of ${app}`)
  expect(refusals.text).toContain(`"app_id":"${app}"`)
})

it.each(CREDENTIALS)('with %s, each route of each listener answers as the table says', async (credential) => {
  const found: string[] = []
  const wanted: string[] = []
  // Not the host alone: a short one stands in a random cookie now and then.
  const node = `${hostname()}-${service.pid}`
  expect(service.output(), 'the name of the node').toContain(`"node":"${node}"`)
  for (const route of ROUTES) {
    const { listener, method, path, query = '', answers } = route
    const { answer, text } = await ask(route, credential)
    const named = `${listener} ${method} ${path}${query}: `
    found.push(named + answer)
    wanted.push(named + (answers[credential] ?? answers.others))
    if (listener !== 'portal') continue
    // Nothing of another app, of the node or of where it keeps things, whatever is asked.
    const foreign = credential === 'read key of another app' ? 'tulip' : 'walrus'
    const marks = [foreign, node, service.dataDir, ...(answer.startsWith('2') ? [] : ['tulip'])]
    expect([named, marks.filter((mark) => text.includes(mark))]).toEqual([named, []])
    expect([named, text.includes('"node"')]).toEqual([named, false])
  }
  expect(found).toEqual(wanted)
})
