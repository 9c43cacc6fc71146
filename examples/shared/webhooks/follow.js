// Reads the alerts for one endpoint, and sends it each of them until it has taken it.

/** Pages of one look; a service that has more is asked again at the next one. */
const MAX_PAGES = 50

/**
 * @typedef {import('./outbox.js').Alert} Alert
 * @typedef {{ nowMs: () => number, wait: (ms: number, signal: AbortSignal) => Promise<void> }} Clock
 * @typedef {{ url: string, secrets: readonly string[], app: string | null }} Endpoint
 *
 * @typedef {object} Follow
 * @property {string} name                 Of the endpoint, for the log.
 * @property {() => Endpoint} endpoint     As the settings have it now.
 * @property {import('./outbox.js').Outbox} outbox
 * @property {(since: string, app: string | null) => Promise<{ alerts: readonly Alert[], more: boolean }>} readAlerts
 * @property {(message: { url: string, secrets: readonly string[], id: string, body: string, number: number, nowMs: number }) => Promise<import('./deliver.js').Outcome>} deliver
 * @property {number} everyMs              Between two looks.
 * @property {Clock} clock
 * @property {AbortSignal} signal
 * @property {(message: string) => void} log
 */

/** Until the endpoint is gone, or `signal` is aborted. @param {Follow} follow */
export async function follow({ name, endpoint, outbox, readAlerts, deliver, everyMs, clock, signal, log }) {
  let lookAtMs = clock.nowMs()
  while (!signal.aborted && outbox.endedAt() === null) {
    if (outbox.hasRoom() && clock.nowMs() >= lookAtMs) {
      lookAtMs = clock.nowMs() + everyMs
      await look().catch((error) => {
        if (!signal.aborted)
          log(`the alerts cannot be read, and are asked for again: ${Object(error).message ?? error}`)
      })
    }
    const pending = outbox.next(clock.nowMs())
    if (pending !== null && pending.next_ms <= clock.nowMs()) await tell(pending)
    else {
      // A clock that was ahead, and was set back, must not put it off.
      lookAtMs = Math.min(lookAtMs, clock.nowMs() + everyMs)
      const lookMs = outbox.hasRoom() ? lookAtMs : Number.POSITIVE_INFINITY
      await clock.wait(Math.max(0, Math.min(lookMs, pending?.next_ms ?? lookMs) - clock.nowMs()), signal)
    }
  }

  async function look() {
    const { app } = endpoint()
    let since = outbox.since(clock.nowMs())
    for (let page = 0; page < MAX_PAGES && !signal.aborted; page++) {
      const { alerts, more } = await readAlerts(since, app)
      const wanted = alerts.filter((alert) => app === null || alert.app_id === app)
      if (!(await outbox.take(wanted, clock.nowMs())) || !more) return
      since = alerts.findLast(({ at }) => !Number.isNaN(Date.parse(at)))?.at ?? since
    }
  }

  /** @param {import('./outbox.js').Pending} pending */
  async function tell(pending) {
    const { alert, attempts } = pending
    const { url, secrets } = endpoint()
    const nowMs = clock.nowMs()
    const outcome = await deliver({ url, secrets, id: alert.id, body: bodyOf(alert), number: attempts, nowMs })
    if (signal.aborted && outcome.kind === 'failed') return
    if (outcome.kind === 'taken') return await outbox.finish(pending)
    if (outcome.kind === 'gone') {
      await outbox.end(clock.nowMs())
      return log(`${name} answered 410: it gets no more`)
    }
    const isKept = await outbox.putOff(pending, clock.nowMs(), outcome.retryAfterMs)
    const seconds = Math.round((pending.next_ms - clock.nowMs()) / 1000)
    log(
      `${name} did not take alert ${shown(alert.id)}: ${outcome.why}; ${isKept ? `again in ${seconds} s` : 'given up after 35 days'}`,
    )
  }
}

/** Without what would change the terminal, or begin a line of its own. @param {unknown} text */
function shown(text) {
  return String(text).replaceAll(/[\p{C}\u2028\u2029]/gu, (sign) => `\\u{${sign.codePointAt(0)?.toString(16)}}`)
}

/** The same at each attempt. @param {Alert} alert */
function bodyOf(alert) {
  return JSON.stringify({ type: `usage.${alert.kind}.${alert.state}`, timestamp: alert.at, data: alert })
}
