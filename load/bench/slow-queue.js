// @ts-check
// NATS takes half of what is offered: its server is stopped for most of every 100 ms. What is still answered 202, how
// fast the rest is refused, and what is stored though its client was told 503.

import { jetstreamManager } from '@nats-io/jetstream'
import { connect } from '@nats-io/transport-node'
import { SEED } from './cases.js'
import { runPaced } from './pacing.js'
import { ensurePrograms, startNats, startRedis } from './programs.js'
import { number, table } from './report.js'
import { startService } from './servers.js'
import { runWrk, writeBodies } from './wrk.js'

const STREAM = 'SLUICE_EVENTS'
/** Keyed, so that each request is one message. */
const KIND = { events: /** @type {const} */ (1), keyed: true, varied: false }
const CONNECTIONS = 4000
const PERIOD_MS = 100
/** Of it, so long NATS runs. */
const AWAKE_MS = 1.5
/** First more is offered than so slow a NATS takes, to see how much it takes. */
const PROBE = { perSecond: 4000, seconds: 5 }
/** Then so many times that. */
const TIMES = 2
/** With NATS quick again, what was offered while it was slow. */
const AFTER_SECONDS = 5

/** @param {import('./sections.js').Options} options @returns {Promise<import('./sections.js').Section>} */
export async function slowQueue(options) {
  ensurePrograms(['redis-server', 'nats-server'])
  const seconds = options.quick ? 5 : 20
  options.progress(`slow queue for ${seconds} s`)
  const bodies = await writeBodies(options.folder, KIND, SEED)
  const redis = await startRedis()
  const nats = await startNats()
  const service = await startService({ env: { REDIS_URL: redis.url, NATS_URL: nats.url } })
  await runWrk(service, bodies, { keyed: true, seconds: 1 })
  const send = async (/** @type {{ perSecond: number, seconds: number }} */ phase) => {
    const before = await storedMessages(nats.url)
    const { phases } = await runPaced(service, bodies, { phases: [phase], connections: CONNECTIONS, keyed: true })
    const stored = (await storedMessages(nats.url)) - before
    return { stored, ...phases[0] }
  }
  const sendSlowly = (/** @type {{ perSecond: number, seconds: number }} */ phase) => {
    const wake = slowDown(nats.pid)
    return send(phase).finally(wake)
  }
  const probe = await sendSlowly(PROBE)
  const perSecond = Math.round((TIMES * probe.stored) / PROBE.seconds)
  const during = await sendSlowly({ perSecond, seconds })
  const after = await send({ perSecond, seconds: AFTER_SECONDS })
  await service.stop()
  await Promise.all([redis.stop(), nats.stop()])

  const { stored, accepted, refused } = during
  const milliseconds = (/** @type {number | null} */ value) => (value === null ? '–' : number(value, 1))
  const head = ['', 'offered /s', 'stored /s', '202 /s', '202 / stored', 'stored, not 202'].concat([
    '202 p99 ms',
    '503 p50 ms',
    '503 p99 ms',
    'last 503, s after the load',
  ])
  const row = [
    `NATS takes 1/${TIMES} of the load`,
    number((accepted.count + refused.count) / seconds),
    number(stored / seconds),
    number(accepted.count / seconds),
    `${number((100 * accepted.count) / stored, 1)}%`,
    number(stored - accepted.count),
    milliseconds(accepted.fromSentMs.p99),
    milliseconds(refused.fromSentMs.p50),
    milliseconds(refused.fromSentMs.p99),
    after.refused.count === 0 ? 'none' : number(after.lastRefusedMs / 1000, 2),
  ]
  const title = `Slow queue: nats-server runs ${AWAKE_MS} ms of every ${PERIOD_MS}, for ${seconds} s; keyed, ${CONNECTIONS} connections`
  return { numbers: { probe, during, after }, text: table(title, head, [row], options) }
}

/** Stops the process most of the time, until what it returns is called. @param {number} pid */
function slowDown(pid) {
  let isOver = false
  const run = () => {
    if (isOver) return
    process.kill(pid, 'SIGCONT')
    setTimeout(() => {
      if (isOver) return
      process.kill(pid, 'SIGSTOP')
      setTimeout(run, PERIOD_MS - AWAKE_MS)
    }, AWAKE_MS)
  }
  run()
  return () => {
    isOver = true
    process.kill(pid, 'SIGCONT')
  }
}

/** @param {string} url */
async function storedMessages(url) {
  const connection = await connect({ servers: [url] })
  try {
    const { state } = await (await jetstreamManager(connection)).streams.info(STREAM)
    return state.messages
  } finally {
    await connection.close()
  }
}
