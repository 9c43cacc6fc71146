// Clients that others generate from openapi.yaml and openapi-portal.yaml: they are made, type-checked or compiled, and call the service. What they
// print is what their own types let them read of the answers.

import { execFileSync, spawnSync } from 'node:child_process'
import { copyFileSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { beforeAll, expect, it, type TestContext } from 'vitest'
import { post, single } from '../support/client.ts'
import { appRecord, eventually, makeFolder, runCommand, type Service, startService } from '../support/service.ts'

const ROOT = resolve(import.meta.dirname, '../..')
const DOCUMENT = join(ROOT, 'openapi.yaml')
const TYPESCRIPT = 'typescript@5.9.3'
const TYPES_AND_FETCH = ['openapi-typescript@7.13.0', 'openapi-fetch@0.17.0', TYPESCRIPT]
const HEY_API = ['@hey-api/openapi-ts@0.95.0', TYPESCRIPT]
const KEY = '7F0E0BB2-6c3a-4d5e-9a53-2a6a4d1c9a10'
const INSTALL_TIMEOUT_MS = 600_000
/** More than a body may have, once it is in the events. */
const TOO_MANY_CHARACTERS = 600_000

const NO_NETWORK =
  /ENOTFOUND|EAI_AGAIN|ETIMEDOUT|ECONNREFUSED|ENETUNREACH|Temporary failure in name resolution|No matching|python3-venv/

/** What each client prints: a line for each of its calls. */
const READ = [
  '202 accepted 2',
  '202 accepted 2 deduplicated',
  '400 validation_failed events[1].name 1',
  '401 invalid_app_key',
  '413 payload_too_large',
]

/** What the programs in TypeScript share; `call` is the generated client's. */
const CALLS = `
declare const process: { argv: string[] }
const event = (name: string) => ({
  event_id: crypto.randomUUID() as string,
  type: 'track' as const,
  name,
  hashed_daily_id: 'd'.repeat(32),
  hashed_monthly_id: 'm'.repeat(32),
  session_id: 's',
  timestamp: new Date().toISOString(),
  context: { os: 'linux' },
})
async function main() {
  const good = [event('one'), event('two')]
  console.log(await call('ak_plain', good, '${KEY}'))
  console.log(await call('ak_plain', good, '${KEY}'))
  console.log(await call('ak_plain', [event('one'), event('')]))
  console.log(await call('ak_nobody', good))
  console.log(await call('ak_plain', [event('x'.repeat(${TOO_MANY_CHARACTERS}))]))
}
void main()
`

const READ_ANSWER = `
  if (data) return [response.status, data.status, data.events, ...(data.deduplicated ? ['deduplicated'] : [])].join(' ')
  if (error.error === 'validation_failed')
    return [response.status, error.error, error.errors?.[0].path, error.errors_total].join(' ')
  return [response.status, error.error].join(' ')
`

const FETCH_PROGRAM = `
import createClient from 'openapi-fetch'
import type { components, paths } from './schema'
const client = createClient<paths>({ baseUrl: process.argv[2] })
async function call(app_key: string, events: components['schemas']['Event'][], key?: string): Promise<string> {
  const { data, error, response } = await client.POST('/api/v1/events', {
    body: { app_key, client_report: { dropped: { expired: 1 } }, events },
    params: { header: key ? { 'Idempotency-Key': key } : {} },
  })
  ${READ_ANSWER}
}
${CALLS}`

const HEY_PROGRAM = `
import { type Event, sendEvents } from './generated'
import { client } from './generated/client.gen'
client.setConfig({ baseUrl: process.argv[2] })
async function call(app_key: string, events: Event[], key?: string): Promise<string> {
  const { data, error, response } = await sendEvents({
    body: { app_key, client_report: { dropped: { expired: 1 } }, events },
    headers: key ? { 'Idempotency-Key': key } : {},
  })
  if (!data && !error || !response) throw new Error('neither an answer nor an error')
  ${READ_ANSWER}
}
${CALLS}`

/** Asks each path of the portal that is no stream, and prints what its types have. */
const PORTAL_PROGRAM = `
import createClient from 'openapi-fetch'
import type { paths } from './schema'
declare const process: { argv: string[] }
const [, , baseUrl, key, batch_id] = process.argv
const client = createClient<paths>({ baseUrl, headers: { Authorization: 'Bearer ' + key } })
async function main() {
  const session = (await client.GET('/api/session')).data
  console.log(session?.app.app_id, session?.key.name, session?.degraded_since)
  const { data: usage } = await client.GET('/api/usage')
  if (typeof usage === 'object' && 'month' in usage) console.log(usage.app_id, usage.month.used, usage.month.limit)
  const { data: byDay } = await client.GET('/api/usage', { params: { query: { days: 2 } } })
  if (typeof byDay === 'object' && 'apps' in byDay) console.log(byDay.apps[0].app_id, byDay.apps[0].days.map(({ events }) => events).join(' '))
  const csv = await client.GET('/api/usage', { headers: { Accept: 'text/csv' }, parseAs: 'text' })
  console.log(String(csv.data).split('\\n')[0])
  const alerts = (await client.GET('/api/alerts', { params: { query: { limit: 5 } } })).data?.alerts
  console.log('alerts:' + alerts?.map(({ kind }) => kind).join(' '))
  const events = (await client.GET('/api/events', { params: { query: { type: 'track' } } })).data?.events
  console.log(events?.map((one) => one.app_id + ' ' + one.batch_id).join(' '))
  const refused = (await client.GET('/api/refusals', { params: { query: { limit: 5 } } })).data
  console.log(refused?.refusals.map(({ code, path }) => code + ' ' + path).join(' '), refused?.groups.length)
  const { data: batch } = await client.GET('/api/batches/{batch_id}', { params: { path: { batch_id } } })
  console.log(batch?.found)
  const { data: byKey } = await client.GET('/api/batches', { params: { query: { key: '${KEY}' } } })
  console.log(byKey?.found)
  const { data: explained } = await client.POST('/api/explain', { body: { events: [] } })
  console.log(explained?.status, explained?.code)
  const { error, response } = await client.GET('/api/alerts', { params: { query: { since: 'yesterday' } } })
  console.log(response.status, error?.error)
  const unknown = await client.GET('/api/session', { headers: { Authorization: 'Bearer no' } })
  console.log(unknown.response.status, unknown.error?.error)
  const opened = await client.POST('/api/session', { body: { token: key } })
  console.log(opened.response.status)
  console.log((await client.DELETE('/api/session')).response.status)
}
void main()
`

const PYTHON_PROGRAM = `
import inspect
import sys
from datetime import datetime, timezone
from uuid import uuid4
from generated.api.default.send_events import sync_detailed
from generated.client import Client
from generated.models import Accepted, Batch, ClientReport, ClientReportDropped, Context, Event, EventType, InvalidAppKey, InvalidRequest, PayloadTooLarge

# httpx takes no header of another type than text.
assert "UUID" not in str(inspect.signature(sync_detailed).parameters["idempotency_key"].annotation)
client = Client(base_url=sys.argv[1])

def event(name):
    return Event(
        event_id=uuid4(), type_=EventType.TRACK, name=name, hashed_daily_id="d" * 32, hashed_monthly_id="m" * 32, session_id="s",
        timestamp=datetime.now(timezone.utc).isoformat(), context=Context(os="linux"),
    )

report = ClientReport(dropped=ClientReportDropped.from_dict({"expired": 1}))

def call(app_key, events, **headers):
    body = Batch(app_key=app_key, client_report=report, events=events)
    response = sync_detailed(client=client, body=body, **headers)
    answer, status = response.parsed, int(response.status_code)
    if isinstance(answer, Accepted):
        print(status, answer.status, answer.events, *(["deduplicated"] if answer.deduplicated else []))
    elif isinstance(answer, InvalidRequest):
        print(status, answer.error.value, answer.errors[0].path, answer.errors_total)
    elif isinstance(answer, (InvalidAppKey, PayloadTooLarge)):
        print(status, answer.error.value)
    else:
        print(status, answer)

good = [event("one"), event("two")]
call("ak_python", good, idempotency_key="${KEY}")
call("ak_python", good, idempotency_key="${KEY}")
call("ak_python", [event("one"), event("")])
call("ak_nobody", good)
call("ak_python", [event("x" * ${TOO_MANY_CHARACTERS})])
`

let service: Service
let base: string

beforeAll(async () => {
  const apps = [appRecord('openapi_fetch'), appRecord('hey_api'), appRecord('python'), appRecord('portal')]
  service = await startService({ apps, env: { SLUICE_PORTAL_PORT: '0' } })
  base = `http://127.0.0.1:${service.port}`
})

/** Runs a program to its end, and returns what it says. Where it wants the network and there is none, the test is skipped and says so. */
function fetchPackages(context: TestContext, cwd: string, program: string, args: readonly string[]): string {
  const { status, error, stderr, stdout } = spawnSync(program, args, { cwd, encoding: 'utf8' })
  if (status === 0) return stdout + stderr
  const said = `${program} ${args.join(' ')}: ${error?.message ?? ''} ${stderr} ${stdout}`
  if (!NO_NETWORK.test(said)) throw new Error(said)
  console.log(`generated clients: no network for ${args.at(-1)}`)
  return context.skip('no network')
}

async function prepare(context: TestContext, packages: readonly string[], document = DOCUMENT): Promise<string> {
  const cwd = await makeFolder()
  copyFileSync(document, join(cwd, 'openapi.yaml'))
  writeFileSync(join(cwd, 'package.json'), '{ "private": true }')
  const install = ['install', '--no-audit', '--no-fund', '--ignore-scripts', '--save-exact', ...packages]
  fetchPackages(context, cwd, 'npm', install)
  return cwd
}

/** Type-checks the program, runs it and returns its lines. */
function runTypeScript(cwd: string, program: string, args: readonly string[]): string[] {
  writeFileSync(join(cwd, 'main.ts'), program)
  const options = '--strict --target es2022 --lib es2022,dom,dom.iterable --module commonjs --moduleResolution node10'
  const compile = ['tsc', ...options.split(' '), '--esModuleInterop', '--skipLibCheck', '--outDir', 'out', 'main.ts']
  execFileSync('npx', compile, { cwd, stdio: 'inherit' })
  return execFileSync(process.execPath, ['out/main.js', ...args], { cwd, encoding: 'utf8' })
    .trim()
    .split('\n')
}

it('openapi-typescript makes types by which openapi-fetch reads every answer', {
  timeout: INSTALL_TIMEOUT_MS,
}, async (context) => {
  const cwd = await prepare(context, TYPES_AND_FETCH)
  execFileSync('npx', ['openapi-typescript', 'openapi.yaml', '-o', 'schema.d.ts'], { cwd, stdio: 'pipe' })
  expect(runTypeScript(cwd, FETCH_PROGRAM.replaceAll('ak_plain', 'ak_openapi_fetch'), [base])).toEqual(READ)
})

it('openapi-typescript makes types of openapi-portal.yaml, by which openapi-fetch reads every answer', {
  timeout: INSTALL_TIMEOUT_MS,
}, async (context) => {
  const cwd = await prepare(context, TYPES_AND_FETCH, join(ROOT, 'openapi-portal.yaml'))
  execFileSync('npx', ['openapi-typescript', 'openapi.yaml', '-o', 'schema.d.ts'], { cwd, stdio: 'pipe' })
  const made = await runCommand(['apps', 'read-key', 'portal', '--name', 'web'], { SLUICE_DATA_DIR: service.dataDir })
  const [key] = made.stdout.split('\n')
  const portal = `http://127.0.0.1:${service.portalPort}`
  await eventually('the read key is known', async () => {
    const headers = { Authorization: `Bearer ${key}` }
    return (await fetch(`${portal}/api/session`, { headers })).status === 200
  })
  const stored = await post(service, single('ak_portal'), { 'Idempotency-Key': KEY })
  await post(service, '{"app_key":"ak_portal","events":[{}]}')
  const id = String(stored.headers['x-batch-id'])
  expect(runTypeScript(cwd, PORTAL_PROGRAM, [portal, key, id])).toEqual([
    'portal web null',
    'portal 1 5500000',
    'portal 0 1',
    'app_id,day,events',
    'alerts:',
    `portal ${id}`,
    'validation_failed events[0].type 1',
    'true',
    'true',
    '202 accepted',
    '400 bad_request',
    '401 key_wanted',
    '204',
    '204',
  ])
})

it('@hey-api/openapi-ts makes a client that reads every answer', { timeout: INSTALL_TIMEOUT_MS }, async (context) => {
  const cwd = await prepare(context, HEY_API)
  execFileSync('npx', ['openapi-ts', '-i', 'openapi.yaml', '-o', 'generated'], { cwd, stdio: 'pipe' })
  expect(runTypeScript(cwd, HEY_PROGRAM.replaceAll('ak_plain', 'ak_hey_api'), [base])).toEqual(READ)
})

it('openapi-python-client makes a client that reads every answer, and drops nothing but the beacon body', {
  timeout: INSTALL_TIMEOUT_MS,
}, async (context) => {
  const cwd = await makeFolder()
  const said = fetchPackages(context, cwd, join(ROOT, 'tools/python-client.sh'), [cwd])
  expect(said.match(/^WARNING.*$/gm)).toEqual(['WARNING parsing POST /api/v1/events within default.'])
  expect(said).toContain('Unsupported content type text/plain')
  writeFileSync(join(cwd, 'main.py'), PYTHON_PROGRAM)
  const printed = execFileSync(join(cwd, 'venv/bin/python'), ['main.py', base], { cwd, encoding: 'utf8' })
  expect(printed.trim().split('\n')).toEqual(READ)
})
