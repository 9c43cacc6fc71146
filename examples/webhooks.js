// Sends the alerts of apps to web addresses, as Standard Webhooks has it: docs/webhooks.md.
// Needs no package: ALERTS_TOKEN=… node examples/webhooks.js --sluice http://localhost:9191

import { createHash } from 'node:crypto'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { textOf } from './shared/answer.js'
import { reasonOf } from './shared/reason.js'
import { deliver } from './shared/webhooks/deliver.js'
import { follow } from './shared/webhooks/follow.js'
import { openOutbox } from './shared/webhooks/outbox.js'
import { openSettings } from './shared/webhooks/settings.js'

const READ_TIMEOUT_MS = 20_000
const MAX_PAGE_BYTES = 8_388_608
const LOOK_FOR_SETTINGS_EVERY_MS = 1000

const HELP = `Sends the alerts of apps to web addresses (docs/webhooks.md).

  --sluice URL     of the portal or the admin port (http://localhost:9191)
  --endpoints F    where they go: {"endpoints":[{"url":"https://…","secrets":["whsec_…"],"app":"shop"}]} (webhooks.json)
  --folder F       where is kept what was sent; one process each (./data/webhooks)
  --from TIME      an endpoint that is new gets the alerts since then; otherwise those from now on
  --every SECONDS  between two looks (60)
  --allow-local    http:// and addresses that are not public too: for tries on one machine
ALERTS_TOKEN is a read key (rk_…) for the portal, or for the admin port the token of the console, best the one for reading.`

/** @param {string} message */
const log = (message) => console.error(`${new Date().toISOString()} ${message}`)

const options = readOptions()
if (options.help) {
  console.log(HELP)
  process.exit()
}
const token = process.env.ALERTS_TOKEN ?? ''
const fromMs = options.from === undefined ? Date.now() : Date.parse(options.from)
const everyMs = Number(options.every) * 1000
if (token === '') end('set ALERTS_TOKEN to a read key, or to the token of the console')
if (Number.isNaN(fromMs)) end(`--from ${options.from} is no time`)
if (!(everyMs >= 100 && everyMs <= 86_400_000)) end(`--every ${options.every}: 0.1 to 86400 seconds`)
if (!URL.canParse(options.sluice)) end(`--sluice ${options.sluice} is no URL`)

const stopping = new AbortController()
const { signal } = stopping
for (const name of ['SIGINT', 'SIGTERM']) process.on(name, () => stopping.abort())
try {
  await main(openSettings(options.endpoints, options['allow-local'], log))
} catch (error) {
  end(reasonOf(error))
}

/** @param {ReturnType<typeof openSettings>} settings */
async function main(settings) {
  mkdirSync(options.folder, { recursive: true, mode: 0o700 })
  /** @type {Map<string, { stop: AbortController, done: Promise<void> }>} */
  const running = new Map()
  log(`sending the alerts of ${options.sluice} to ${settings().size} endpoints`)
  while (!signal.aborted) {
    const endpoints = settings()
    for (const [url, { stop, done }] of running) {
      if (endpoints.has(url)) continue
      stop.abort()
      await done
      running.delete(url)
    }
    for (const url of endpoints.keys()) {
      if (running.has(url)) continue
      const stop = new AbortController()
      const done = serve(url, settings, AbortSignal.any([signal, stop.signal])).catch((error) => {
        // Its file cannot be written, so that what is sent would be sent again for ever.
        log(`ends: ${reasonOf(error)}`)
        process.exitCode = 1
        stopping.abort()
      })
      running.set(url, { stop, done })
    }
    await pause(LOOK_FOR_SETTINGS_EVERY_MS, signal)
  }
  await Promise.all([...running.values()].map(({ done }) => done))
}

/** @param {string} url @param {ReturnType<typeof openSettings>} settings @param {AbortSignal} stop */
async function serve(url, settings, stop) {
  const { origin } = new URL(url)
  const file = join(options.folder, `${createHash('sha256').update(url).digest('hex').slice(0, 32)}.json`)
  const outbox = await openOutbox({ file, url, fromMs })
  if (outbox.endedAt() !== null) log(`${origin} wants no more since ${outbox.endedAt()}; to send again, remove ${file}`)
  let endpoint = /** @type {import('./shared/webhooks/follow.js').Endpoint} */ (settings().get(url))
  await follow({
    // A path may hold a secret.
    name: origin,
    endpoint: () => (endpoint = settings().get(url) ?? endpoint),
    outbox,
    readAlerts: (since, app) => readAlerts(since, app, stop),
    deliver: (message) => deliver({ ...message, allowsLocal: options['allow-local'], signal: stop }),
    everyMs,
    clock: { nowMs: Date.now, wait: pause },
    signal: stop,
    log,
  })
}

/** @param {string} since @param {string | null} app @param {AbortSignal} stop */
async function readAlerts(since, app, stop) {
  const query = new URLSearchParams(app === null ? { since } : { since, app })
  const response = await fetch(new URL(`/api/alerts?${query.toString()}`, options.sluice), {
    headers: { Authorization: `Bearer ${token}` },
    redirect: 'error',
    signal: AbortSignal.any([stop, AbortSignal.timeout(READ_TIMEOUT_MS)]),
  })
  const { alerts, more, message } = JSON.parse(await textOf(response, MAX_PAGE_BYTES))
  if (response.status !== 200) throw new Error(`sluice answered ${response.status}: ${message}`)
  return { alerts, more }
}

/** A timer takes no more than some 24 days. @param {number} ms @param {AbortSignal} stop */
async function pause(ms, stop) {
  await wait(Math.min(ms, 86_400_000), undefined, { signal: stop }).catch(() => {})
}

function readOptions() {
  const options = /** @type {const} */ ({
    help: { type: 'boolean', default: false },
    sluice: { type: 'string', default: 'http://localhost:9191' },
    endpoints: { type: 'string', default: 'webhooks.json' },
    folder: { type: 'string', default: join('data', 'webhooks') },
    from: { type: 'string' },
    every: { type: 'string', default: '60' },
    'allow-local': { type: 'boolean', default: false },
  })
  try {
    return parseArgs({ options }).values
  } catch (error) {
    return end(`${reasonOf(error)}; --help lists the options`)
  }
}

/** @param {string} message @returns {never} */
function end(message) {
  console.error(`webhooks: ${message}`)
  process.exit(1)
}
