// A DuckDB file that takes each batch and each event once. In one transaction it stores rows, the ids that were seen and
// the position they go up to: whatever is killed when, a restart goes on behind what is stored.

import { createHash } from 'node:crypto'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { DuckDBInstance, listValue } from '@duckdb/node-api'

/**
 * An event is accepted from 1 h before its timestamp until 72 h behind it, so a copy of it comes within 73 h. One hour more,
 * since nodes' clocks differ.
 */
const SEEN_FOR_MS = 74 * 3_600_000
const FORGET_EVERY_MS = 60_000
const MAX_KEY_CHARACTERS = 200

const SCHEMA = `
  CREATE TABLE IF NOT EXISTS events (
    epoch VARCHAR NOT NULL,       -- of sequences: another one when the source began again
    partition VARCHAR NOT NULL,
    sequence UBIGINT NOT NULL,
    app_id VARCHAR NOT NULL,
    batch_id VARCHAR NOT NULL,
    event_index INTEGER NOT NULL, -- in its batch
    received_at TIMESTAMP NOT NULL,
    happened_at TIMESTAMP,
    sdk_version VARCHAR,
    type VARCHAR,
    name VARCHAR,
    event_id VARCHAR,
    event JSON,                   -- as sent; NULL if DuckDB cannot read it
    unreadable VARCHAR            -- as sent, if DuckDB cannot read it: one such value would fail every query on event
  );
  CREATE TABLE IF NOT EXISTS position (source VARCHAR, sequence UBIGINT, mark VARCHAR, epoch VARCHAR);
  CREATE TABLE IF NOT EXISTS seen (key VARCHAR PRIMARY KEY, received_ms BIGINT NOT NULL);
`
const INCOMING = `CREATE OR REPLACE TEMP TABLE incoming (
  partition VARCHAR, sequence UBIGINT, app_id VARCHAR, batch_id VARCHAR, event_index INTEGER,
  received_ms BIGINT, happened_ms BIGINT, sdk_version VARCHAR, type VARCHAR, name VARCHAR, event_id VARCHAR, text VARCHAR)`
const INSERT = `INSERT INTO events SELECT $1, partition, sequence, app_id, batch_id, event_index,
  make_timestamp_ms(received_ms), make_timestamp_ms(happened_ms), sdk_version, type, name, event_id,
  CASE WHEN json_valid(text) THEN text::JSON END, CASE WHEN NOT json_valid(text) THEN text END FROM incoming`

/**
 * @typedef {import('./record.js').QueueRecord} QueueRecord
 * @typedef {import('./stream.js').Position} Position
 * @typedef {{ record: QueueRecord, event: import('./record.js').QueueEvent, index: number }} Row
 * @typedef {Awaited<ReturnType<typeof openStore>>} Store
 */

/**
 * Only one process can have the file open.
 *
 * @param {string} folder
 */
export async function openStore(folder) {
  await mkdir(folder, { recursive: true })
  const instance = await DuckDBInstance.create(join(folder, 'events.duckdb'))
  const connection = await instance.connect()
  await connection.run(SCHEMA)
  const [stored] = await query('SELECT source, sequence, mark, epoch FROM position')
  /** @type {Position | null} */
  let position =
    stored === undefined ? null : { source: stored.source, sequence: BigInt(stored.sequence), mark: stored.mark }
  /** @type {string} */
  let epoch = stored?.epoch ?? newEpoch()
  let newestMs = 0
  let forgottenAtMs = 0

  /**
   * @param {string} sql
   * @param {import('@duckdb/node-api').DuckDBValue[]} values
   * @returns {Promise<Record<string, any>[]>}
   */
  async function query(sql, values = []) {
    const reader = await connection.runAndReadAll(sql, values)
    return reader.getRowObjectsJS()
  }

  /**
   * All that `work` does, or nothing.
   *
   * @template T
   * @param {() => Promise<T>} work
   */
  async function transaction(work) {
    await connection.run('BEGIN')
    try {
      const result = await work()
      await connection.run('COMMIT')
      return result
    } catch (error) {
      await connection.run('ROLLBACK').catch(() => {})
      throw error
    }
  }

  /**
   * Stores what is new of `records`, which are up to `end`; not `isWhole`: some that lie there are left out, so that the
   * position stays.
   *
   * @param {readonly QueueRecord[]} records
   * @param {Position} end
   * @returns {Promise<number>} events that were stored
   */
  async function write(records, end, isWhole = true) {
    const begin = records[0]?.line.sequence ?? end.sequence
    const isAnew = position !== null && (end.source !== position.source || begin < position.sequence)
    const epochNow = isAnew ? newEpoch() : epoch
    const stored = await transaction(async () => {
      const rows = await newRows(records)
      await connection.run(INCOMING)
      await append(rows)
      await connection.run(INSERT, [epochNow])
      if (isWhole) {
        await connection.run('DELETE FROM position')
        await connection.run('INSERT INTO position VALUES ($1, $2, $3, $4)', [
          end.source,
          end.sequence,
          end.mark,
          epochNow,
        ])
      }
      return rows.length
    })
    if (isWhole) position = end
    epoch = epochNow
    for (const { receivedMs } of records) newestMs = Math.max(newestMs, receivedMs)
    await forget()
    return stored
  }

  /**
   * The events of `records` that were not seen before. A batch that was is passed over whole; its events are not noted,
   * since a key that was used again may carry others.
   *
   * @param {readonly QueueRecord[]} records
   */
  async function newRows(records) {
    const batches = records.map((record) => ({ record, key: keyOf(`batch ${record.appId} ${record.batchId}`) }))
    const rows = (await claim(batches)).flatMap(({ record }) =>
      record.events.map((event, index) => ({ record, event, index, key: eventKey(record.appId, event.eventId) })),
    )
    const claimed = new Set(await claim(rows.filter(({ key }) => key !== '')))
    return rows.filter((row) => row.key === '' || claimed.has(row))
  }

  /**
   * Notes keys, and returns the first item of each key that had not been noted.
   *
   * @template {{ key: string, record: QueueRecord }} T
   * @param {readonly T[]} items
   * @returns {Promise<T[]>}
   */
  async function claim(items) {
    const firstByKey = new Map(items.toReversed().map((item) => [item.key, item]))
    const keys = listValue([...firstByKey.keys()])
    const times = listValue([...firstByKey.values()].map(({ record }) => BigInt(record.receivedMs)))
    if (firstByKey.size === 0) return []
    const claimed = await query('INSERT INTO seen SELECT unnest($1), unnest($2) ON CONFLICT DO NOTHING RETURNING key', [
      keys,
      times,
    ])
    const newKeys = new Set(claimed.map(({ key }) => key))
    return items.filter((item) => newKeys.has(item.key) && firstByKey.get(item.key) === item)
  }

  /** @param {readonly Row[]} rows */
  async function append(rows) {
    const appender = await connection.createAppender('incoming')
    for (const { record, event, index } of rows) {
      appender.appendVarchar(record.line.partition)
      appender.appendUBigInt(record.line.sequence)
      appender.appendVarchar(record.appId)
      appender.appendVarchar(record.batchId)
      appender.appendInteger(index)
      appender.appendBigInt(BigInt(record.receivedMs))
      if (event.happenedMs === null) appender.appendNull()
      else appender.appendBigInt(BigInt(event.happenedMs))
      for (const text of [record.sdkVersion, event.type, event.name, event.eventId, event.text]) {
        if (text === null) appender.appendNull()
        else appender.appendVarchar(text)
      }
      appender.endRow()
    }
    appender.closeSync()
  }

  /**
   * By the records' time, so that an old stream that is read again forgets nothing too early; but by no time that is ahead
   * of ours, which one wrong clock could bring.
   */
  async function forget() {
    if (Date.now() - forgottenAtMs < FORGET_EVERY_MS) return
    forgottenAtMs = Date.now()
    const beforeMs = Math.min(newestMs, Date.now()) - SEEN_FOR_MS
    await connection.run('DELETE FROM seen WHERE received_ms < $1', [BigInt(beforeMs)])
  }

  return {
    position: () => position,
    write,
    query,
    transaction,
    close: () => {
      connection.closeSync()
      instance.closeSync()
    },
  }
}

function newEpoch() {
  return crypto.randomUUID().slice(0, 8)
}

/** Empty: the event has none. @param {string} appId @param {string | null} eventId */
function eventKey(appId, eventId) {
  return eventId === null ? '' : keyOf(`event ${appId} ${eventId}`)
}

/** A client may send an id of any length; an index takes short ones. @param {string} key */
function keyOf(key) {
  return key.length <= MAX_KEY_CHARACTERS ? key : createHash('sha256').update(key).digest('hex')
}
