// The queue into ClickHouse over HTTP. A range of rows is noted on disk before it is sent, and goes out under one
// `insert_deduplication_token` however often it takes: an insert whose answer was lost is not stored a second time.

import { setTimeout as sleep } from 'node:timers/promises'
import { startOf } from './shared/answer.js'
import { openRanges } from './shared/ranges.js'
import { reasonOf } from './shared/reason.js'
import { run } from './shared/run.js'

const ANSWER_TIMEOUT_MS = 60_000
const MAX_SHOWN_BYTES = 300
/** Of the text of events in one insert, which is held in memory: any app may send events of half a megabyte. */
const MAX_INSERT_BYTES = 16_777_216
const RETRY_MIN_MS = 200
const RETRY_MAX_MS = 30_000
/** Rows that ClickHouse refuses so often are taken apart; a batch alone becomes a dead letter. */
const MAX_REFUSALS = 5

const COLUMNS =
  'partition, sequence, app_id, batch_id, event_index, received_at, happened_at, sdk_version, type, name, event_id, event'
/** Without the window a MergeTree that is not replicated ignores tokens. */
const createTable = (/** @type {string} */ table) => `CREATE TABLE IF NOT EXISTS ${table} (
  partition LowCardinality(String), sequence UInt64, app_id LowCardinality(String), batch_id String, event_index UInt16,
  received_at DateTime64(3, 'UTC'), happened_at Nullable(DateTime64(3, 'UTC')), sdk_version LowCardinality(String),
  type LowCardinality(String), name LowCardinality(String), event_id String, event String
) ENGINE = MergeTree PARTITION BY toYYYYMM(received_at) ORDER BY (app_id, name, received_at)
SETTINGS non_replicated_deduplication_window = 1000`

const ROWS = `SELECT partition, sequence::VARCHAR AS sequence, app_id, batch_id, event_index,
  strftime(received_at, '%Y-%m-%d %H:%M:%S.%g') AS received_at, strftime(happened_at, '%Y-%m-%d %H:%M:%S.%g') AS happened_at,
  coalesce(sdk_version, '') AS sdk_version, coalesce(type, '') AS type, coalesce(name, '') AS name,
  coalesce(event_id, '') AS event_id, coalesce(event::VARCHAR, unreadable) AS event FROM outgoing`

await run({
  name: 'clickhouse',
  help: `Inserts each event once into a table of ClickHouse, which it creates if it is missing.

  --url URL       of ClickHouse (http://localhost:8123); CLICKHOUSE_USER and CLICKHOUSE_PASSWORD
  --table T       database.table (default.sluice_events)
  --rows N        rows are sent at so many (20000)
  --seconds N     or when the oldest has waited so long (1)`,
  options: {
    url: { type: 'string' },
    table: { type: 'string' },
    rows: { type: 'string' },
    seconds: { type: 'string' },
  },
  begin: async ({ store, deadLetters, signal, log, options }) => {
    const { url = 'http://localhost:8123', table = 'default.sluice_events', rows = '20000', seconds = '1' } = options
    if (!/^\w+(\.\w+)?$/.test(String(table))) throw new Error(`--table ${table} is no name of a table`)
    const ranges = await openRanges(store, {
      maxRows: Number(rows),
      maxAgeMs: Number(seconds) * 1000,
      maxBytes: MAX_INSERT_BYTES,
    })
    const insert = `INSERT INTO ${table} (${COLUMNS}) FORMAT JSONEachRow`
    if (!(await post(createTable(String(table)), '', '')))
      throw new Error('ClickHouse does not create the table (see above)')

    return { afterChunk: async (storedEvents) => await ranges.pass(storedEvents, send) }

    /** @param {import('./shared/ranges.js').Range} range */
    async function send(range) {
      const token = `${range.epoch}:${range.partition}:${range.day}:${range.first}-${range.last}`
      await ranges.select(range)
      const found = await store.query(ROWS)
      if (!range.isSplit) {
        if (await post(insert, textOf(found), token)) return
        // Where no rows at all are refused too, it is not these rows: this waits until somebody has mended the table.
        while (!(await post(insert, '', ''))) log(`${table} refuses every insert`)
        await ranges.split(range)
      }
      for (const [key, batch] of byBatch(found)) {
        if (await post(insert, textOf(batch), `${token} ${key}`)) continue
        const line = { partition: range.partition, sequence: BigInt(batch[0].sequence), text: JSON.stringify(batch) }
        await deadLetters.add(`ClickHouse refused it ${MAX_REFUSALS} times`, line)
      }
    }

    /**
     * Until ClickHouse has taken it; false: it said so many times that the fault is in what was sent (400). Whatever else
     * happens, no answer, a full disk, a wrong password, is waited for.
     *
     * @param {string} query
     * @param {string} body
     * @param {string} token
     */
    async function post(query, body, token) {
      let pauseMs = RETRY_MIN_MS
      for (let refusals = 0; refusals < MAX_REFUSALS; ) {
        try {
          const answer = await fetch(addressOf(query, token), {
            method: 'POST',
            headers: credentials(),
            body,
            signal: AbortSignal.any([signal, AbortSignal.timeout(ANSWER_TIMEOUT_MS)]),
          })
          const text = (await startOf(answer, MAX_SHOWN_BYTES)).toString()
          if (answer.ok && !answer.headers.has('x-clickhouse-exception-code')) return true
          if (answer.status === 400) refusals += 1
          log(`ClickHouse answered ${answer.status}: ${text.trim()}`)
        } catch (error) {
          signal.throwIfAborted()
          log(`no answer of ClickHouse: ${reasonOf(error)}`)
        }
        await sleep(pauseMs, undefined, { signal })
        pauseMs = Math.min(2 * pauseMs, RETRY_MAX_MS)
      }
      return false
    }

    /** @param {string} query @param {string} token */
    function addressOf(query, token) {
      const address = new URL(String(url))
      address.searchParams.set('query', query)
      if (token !== '') {
        address.searchParams.set('insert_deduplicate', '1')
        address.searchParams.set('insert_deduplication_token', token)
        address.searchParams.set('async_insert', '0')
      }
      return address
    }
  },
})

/** @param {readonly Record<string, any>[]} rows */
function byBatch(rows) {
  /** @type {Map<string, Record<string, any>[]>} */
  const batches = new Map()
  for (const row of rows) {
    const key = `${row.sequence} ${row.batch_id}`
    const batch = batches.get(key)
    if (batch === undefined) batches.set(key, [row])
    else batch.push(row)
  }
  return batches
}

/** One JSON object a line. @param {readonly Record<string, unknown>[]} rows */
function textOf(rows) {
  return rows.map((row) => `${JSON.stringify(row)}\n`).join('')
}

/** @returns {Record<string, string>} */
function credentials() {
  const { CLICKHOUSE_USER: user, CLICKHOUSE_PASSWORD: password = '' } = process.env
  return user === undefined ? {} : { 'X-ClickHouse-User': user, 'X-ClickHouse-Key': password }
}
