// `sluice demo`: sends what the users of a made-up shop do, so that a console has something to show.

import { type IncomingHttpHeaders, request as requestHttp } from 'node:http'
import { request as requestHttps } from 'node:https'
import { setTimeout as sleep } from 'node:timers/promises'
import { EVENTS_PATH } from '../../contract/bounds.ts'
import { hostAndPort, hostToReach } from '../../lib/admin-address.ts'
import { errorCode, StartError } from '../../lib/errors.ts'
import { isLoopback } from '../../lib/loopback.ts'
import { packageVersion } from '../../lib/version.ts'
import { readRecordsFile } from '../../records/app-records.ts'
import { type Config, readConfig } from '../../settings/config.ts'
import { consoleUrl } from '../admin-api.ts'
import { EXIT, print, readFlags, type Shell, say, UsageError, untilInterrupted } from '../shell.ts'
import { formatCount, formatTable, printable } from '../table.ts'
import { type DemoBatch, MOST_EVENTS, visits } from './shop.ts'

const DEMO_APP = 'demo'
const RATE = { fallback: 10, most: 50 }
const SECONDS = { fallback: 60, most: 86_400 }
/** Of an app's minute: left for others who send. */
const LEFT_SHARE = 0.1
const ANSWER_TIMEOUT_MS = 10_000
const LEAVE_MS = 1000
/** Of an answer that is read for its error code. */
const MAX_ANSWER_BYTES = 65_536

export const help = `Usage: sluice demo [--url U] [--app-key K] [--rate N] [--seconds S] [--yes]

Sends what six made-up users of a shop do, so that the console of a new service has something to show: visits, purchases,
batches that are sent twice under one key, and now and then (fewer than a tenth) a batch that is wrong on purpose, to be
looked at under Refused. It stores events for real.

  --url U       the service (default: this machine's, on PORT)
  --app-key K   (default: that of the app "demo" in the app file, which a first start makes; with NATS there is none)
  --rate N      events a second (default: ${RATE.fallback}, at most ${RATE.most})
  --seconds S   how long (default: ${SECONDS.fallback})
  --yes         also to a service on another machine

A tenth of the app's minute is always left for others. Ctrl-C ends it early.
Exit code: 0 where all was answered as it should be, 1 where not, 2 for a wrong command line.

Example:
  sluice demo --rate 20 --seconds 30
`

interface Answer {
  readonly status: number
  /** accepted, or the code of the error. */
  readonly code: string
  readonly headers: IncomingHttpHeaders
}

export async function run(args: readonly string[], shell: Shell): Promise<number> {
  const { values: flags } = readFlags(args, {
    url: { type: 'string' },
    'app-key': { type: 'string' },
    rate: { type: 'string', default: String(RATE.fallback) },
    seconds: { type: 'string', default: String(SECONDS.fallback) },
    yes: { type: 'boolean', default: false },
  })
  const rate = numberOf('--rate', flags.rate, RATE.most)
  const seconds = numberOf('--seconds', flags.seconds, SECONDS.most)
  const config = readConfig(shell.env)
  const url = eventsUrl(flags.url, config)
  if (!flags.yes && !isHere(url))
    throw new UsageError(`${url.hostname} is not this machine: --yes sends made-up events to it`)
  const appKey = flags['app-key'] ?? demoKey(config)
  const lookAt = flags.url === undefined ? await consoleUrl(config) : null
  await say(shell, `sending to ${url.href} for ${formatCount(seconds)} s\n`)
  if (flags.url === undefined) await say(shell, `look at${lookAt === null ? '' : ` ${lookAt}, or at`}: sluice tail\n`)

  const counts = new Map<string, number>()
  const endsAtMs = performance.now() + 1000 * seconds
  await untilInterrupted((signal) => sendVisits({ url, appKey, rate, endsAtMs, shell, counts, signal }), {
    leaveMs: LEAVE_MS,
  })
  await print(shell.stdout, formatTable([...counts].map(([what, count]) => [what, formatCount(count)])))
  const isAsMeant = counts.size > 0 && [...counts.keys()].every((what) => EXPECTED.has(what))
  return isAsMeant ? EXIT.ok : EXIT.failed
}

const WHAT = {
  good: 'batches stored',
  repeat: 'repeats known as such, and not stored again',
  wrong: 'wrong on purpose, and refused',
} as const
const STATUS = { good: 202, repeat: 202, wrong: 400 } as const
const EXPECTED = new Set<string>([...Object.values(WHAT), 'events stored'])

interface Sending {
  readonly url: URL
  readonly appKey: string
  readonly rate: number
  readonly endsAtMs: number
  readonly shell: Shell
  /** Filled here, so that an interruption leaves what was counted. */
  readonly counts: Map<string, number>
  readonly signal: AbortSignal
}

async function sendVisits({ url, appKey, rate, endsAtMs, shell, counts, signal }: Sending): Promise<void> {
  const count = (what: string, by = 1): unknown => counts.set(what, (counts.get(what) ?? 0) + by)
  let dueAtMs = performance.now()
  let storedKey: string | null = null
  for (const batch of visits(Math.random, shell.clock)) {
    if (dueAtMs >= endsAtMs || signal.aborted) return
    if (batch.kind === 'repeat' && batch.key !== storedKey) continue
    await sleep(Math.max(0, dueAtMs - performance.now()), undefined, { signal })
    const answer = await send(url, appKey, batch, signal)
    const { length } = batch.events
    const isKnown = batch.kind !== 'repeat' || answer.headers['sluice-replay'] === 'same'
    if (answer.status === STATUS[batch.kind] && isKnown) count(WHAT[batch.kind])
    else count(`${answer.status} ${answer.code}, not expected`)
    if (batch.kind === 'good') storedKey = answer.status === 202 ? batch.key : null
    if (answer.status === 202 && batch.kind === 'good') count('events stored', length)
    dueAtMs = Math.max(dueAtMs + (length / rate) * 1000, performance.now() + waitMs(answer, shell.clock()))
  }
}

/** Until the app's minute may be used further. */
function waitMs({ status, headers }: Answer, nowMs: number): number {
  const number = (name: string): number => Number(headers[name]) || 0
  const untilMs = 1000 * number('x-ratelimit-reset') - nowMs
  if (status === 429 || status === 503) return 1000 * Math.max(1, number('retry-after'))
  // Of a refusal before the app is known they are not the app's.
  const isUsedUp =
    status === 202 && number('x-ratelimit-remaining') <= Math.max(MOST_EVENTS, LEFT_SHARE * number('x-ratelimit-limit'))
  return isUsedUp ? Math.max(1000, untilMs) : 0
}

function send(url: URL, appKey: string, { key, events }: DemoBatch, signal: AbortSignal): Promise<Answer> {
  const body = JSON.stringify({ app_key: appKey, sdk_version: `sluice-demo/${packageVersion()}`, events })
  const headers = { 'Content-Type': 'application/json', 'Idempotency-Key': key }
  // A loopback address needs no certificate that anybody vouches for.
  const options = { method: 'POST', headers, rejectUnauthorized: !isHere(url) }
  const limited = AbortSignal.any([signal, AbortSignal.timeout(ANSWER_TIMEOUT_MS)])
  return new Promise((done, fail) => {
    const request = url.protocol === 'https:' ? requestHttps : requestHttp
    const failed = (error: unknown): void => {
      const why = errorCode(error) ?? 'no answer'
      fail(
        new StartError(
          `no service answers at ${url.origin} (${why}): is it running, on this PORT? --url names another`,
        ),
      )
    }
    const asked = request(url, { ...options, signal: limited }, (response) => {
      let text = ''
      response.setEncoding('utf8').on('error', failed)
      response.on('data', (piece: string) => {
        text += piece
        // No answer of sluice is so long, and one may never end.
        if (text.length > MAX_ANSWER_BYTES) response.destroy()
      })
      response.on('close', () =>
        done({ status: response.statusCode ?? 0, code: codeOf(text), headers: response.headers }),
      )
    })
    asked.on('error', failed)
    asked.end(body)
  })
}

const isHere = ({ hostname }: URL): boolean => isLoopback(hostname.replace(/^\[|\]$/g, ''))

function codeOf(text: string): string {
  try {
    const { error, status } = Object(JSON.parse(text)) as Record<string, unknown>
    return printable(String(error ?? status)).slice(0, 64)
  } catch {
    return 'in another form than sluice answers'
  }
}

function numberOf(flag: string, text: string, most: number): number {
  const number = Number(text)
  if (number > 0 && number <= most) return number
  throw new UsageError(`${flag}: a number above 0, at most ${formatCount(most)}`)
}

function eventsUrl(given: string | undefined, { publicHost, publicPort, tls }: Config): URL {
  const here = `${tls === null ? 'http' : 'https'}://${hostAndPort(hostToReach(publicHost), publicPort)}`
  if (given === undefined && publicPort === 0) throw new UsageError('PORT is 0: --url names the service')
  if (!URL.canParse(given ?? here)) throw new UsageError('--url: an http:// or https:// address')
  const url = new URL(EVENTS_PATH, given ?? here)
  if (!['http:', 'https:'].includes(url.protocol)) throw new UsageError('--url: an http:// or https:// address')
  return url
}

function demoKey({ appsFile, appsFileNamed }: Config): string {
  if (appsFile === null)
    throw new UsageError('app records are in NATS, where no app is made for a demo: --app-key says for whom it sends')
  const record = readRecordsFile(appsFile, appsFileNamed).find(({ app_id: appId }) => appId === DEMO_APP)
  if (record !== undefined) return record.app_key
  throw new UsageError(`there is no app "${DEMO_APP}" in a file of app records: --app-key says for whom it sends`)
}
