// The queue into DuckDB, and a table of what came: events by minute and name. The rows are in data/warehouse/events.duckdb.

import { run } from './shared/run.js'

const SHOWN_ROWS = 20
const SHOWN_CHARACTERS = 40
/** While it catches up, chunks come faster. */
const SHOW_EVERY_MS = 1000

/** Of the last hour that came: the whole file would take longer the more there is in it. */
const BY_MINUTE = `
  SELECT strftime(date_trunc('minute', coalesce(happened_at, received_at)), '%Y-%m-%d %H:%M') AS minute,
    name, count(*)::INTEGER AS events, count(DISTINCT app_id)::INTEGER AS apps
  FROM events WHERE received_at > (SELECT max(received_at) FROM events) - INTERVAL 1 HOUR
  GROUP BY ALL ORDER BY minute DESC, events DESC, name LIMIT ${SHOWN_ROWS}`

await run({
  name: 'warehouse',
  help: 'Stores each event once in a DuckDB file, and prints events by minute and name as they come.',
  begin: async ({ store }) => {
    let shownAtMs = 0
    // Also at the start, what is there.
    let isNews = true
    return { afterChunk }

    /** @param {number} storedEvents */
    async function afterChunk(storedEvents) {
      isNews ||= storedEvents > 0
      if (!isNews || Date.now() - shownAtMs < SHOW_EVERY_MS) return
      isNews = false
      shownAtMs = Date.now()
      const rows = await store.query(BY_MINUTE)
      const [{ total }] = await store.query('SELECT count(*)::DOUBLE AS total FROM events')
      console.log(
        `\n${'minute (UTC)'.padEnd(18)}${'name'.padEnd(SHOWN_CHARACTERS)}${'events'.padStart(8)}${'apps'.padStart(6)}`,
      )
      for (const { minute, name, events, apps } of rows) {
        console.log(`${minute.padEnd(18)}${shown(name)}${String(events).padStart(8)}${String(apps).padStart(6)}`)
      }
      console.log(`${total} events in all`)
    }
  },
})

/** A name is its client's: what a terminal would obey is not printed. @param {string | null} name */
function shown(name) {
  const plain = (name ?? '(none)').replace(/[\p{C}\p{Zl}\p{Zp}]/gu, '?')
  return (plain.length < SHOWN_CHARACTERS ? plain : `${plain.slice(0, SHOWN_CHARACTERS - 2)}…`).padEnd(SHOWN_CHARACTERS)
}
