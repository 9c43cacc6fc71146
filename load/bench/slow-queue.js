// @ts-check
// NATS takes half of what is offered: its server is stopped for most of every 100 ms. What is still answered 202, how
// fast the rest is refused, and what is stored though its client was told 503.

import { jetstreamManager } from '@nats-io/jetstream'
import { connect } from '@nats-io/transport-node'
import { casesOf } from './cases.js'
import { refusalColumns } from './overload.js'
import { runPaced } from './pacing.js'
import { ensurePrograms, startCluster } from './programs.js'
import { milliseconds, number, table } from './report.js'
import { eachCase, withServers } from './turns.js'
import { runWrk } from './wrk.js'

const STREAM = 'SLUICE_EVENTS'
/** Keyed, so that each request is one message. */
const CASES = casesOf({ keyed: [true] })
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

/** @param {import('./turns.js').Options} options @returns {Promise<import('./turns.js').Section>} */
export async function slowQueue(options) {
  ensurePrograms(['redis-server', 'nats-server'])
  const seconds = options.quick ? 5 : 20
  const results = await eachCase(options, CASES, ({ keyed }, bodies) =>
    withServers({ service: startCluster }, async ({ service }) => {
      const [{ url, pid }] = service.nats.servers
      await runWrk(service, bodies, { keyed, seconds: 1 })
      const send = async (/** @type {import('./pacing.js').Phase} */ phase) => {
        const before = await storedMessages(url)
        const { phases } = await runPaced(service, bodies, [phase], { connections: CONNECTIONS, keyed })
        return { stored: (await storedMessages(url)) - before, ...phases[0] }
      }
      const sendSlowly = (/** @type {import('./pacing.js').Phase} */ phase) => {
        const wake = slowDown(pid)
        return send(phase).finally(wake)
      }
      const probe = await sendSlowly(PROBE)
      const perSecond = Math.round((TIMES * probe.stored) / PROBE.seconds)
      const during = await sendSlowly({ perSecond, seconds })
      return { probe, during, after: await send({ perSecond, seconds: AFTER_SECONDS }) }
    }),
  )
  const title = `Slow queue: nats-server runs ${AWAKE_MS} ms of every ${PERIOD_MS}, for ${seconds} s; keyed, ${CONNECTIONS} connections`
  const text = table(title, results, options, [
    ['', () => `NATS takes 1/${TIMES} of the load`],
    ['offered /s', ({ during }) => number((during.accepted.count + during.refused.count) / seconds)],
    ['stored /s', ({ during }) => number(during.stored / seconds)],
    ['202 /s', ({ during }) => number(during.accepted.count / seconds)],
    ['202 / stored', ({ during }) => `${number((100 * during.accepted.count) / during.stored, 1)}%`],
    ['stored, not 202', ({ during }) => number(during.stored - during.accepted.count)],
    ['202 p99 ms', ({ during }) => milliseconds(during.accepted.fromSentMs.p99)],
    ...refusalColumns,
  ])
  return { numbers: results, text }
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
