// Hands what the store holds on to another place, once: a range of rows is noted before it goes out, goes out again as it
// was until it has arrived, and is then removed with its note in one transaction.

const SCHEMA = `CREATE TABLE IF NOT EXISTS ranges (
  epoch VARCHAR, partition VARCHAR, day DATE, first UBIGINT, last UBIGINT, is_split BOOLEAN)`
/** Rows of one message stay together: in this sum they are equal. */
const NOTE = `INSERT INTO ranges SELECT epoch, partition, day, min(sequence), max(sequence), false FROM (
  SELECT epoch, partition, received_at::DATE AS day, sequence, sum(strlen(coalesce(event::VARCHAR, unreadable)))
    OVER (PARTITION BY epoch, partition, received_at::DATE ORDER BY sequence) // $1 AS part FROM events)
  GROUP BY epoch, partition, day, part`
const OF_RANGE = `epoch = $1 AND partition = $2 AND received_at::DATE = $3::DATE AND sequence BETWEEN $4 AND $5`

/**
 * @typedef {object} Range          Rows of one partition and one day (UTC, of `received_at`).
 * @property {string} epoch         Random; another one when the source began again, as sequences then come again.
 * @property {string} partition
 * @property {string} day
 * @property {bigint} first
 * @property {bigint} last
 * @property {boolean} isSplit      Goes out batch by batch, since it was refused as a whole.
 */

/**
 * @param {import('./store.js').Store} store
 * @param {object} options            All that waits goes out
 * @param {number} options.maxRows    at so many rows,
 * @param {number} options.maxAgeMs   or when the oldest waited so long,
 * @param {number} options.maxBytes   in ranges of so many bytes of events, and one message.
 */
export async function openRanges(store, { maxRows, maxAgeMs, maxBytes }) {
  await store.query(SCHEMA)
  const [{ rows }] = await store.query('SELECT count(*)::DOUBLE AS rows FROM events')
  let waitingRows = rows
  let waitingSinceMs = Date.now()

  /**
   * To be called after each chunk; `send` resolves once the range has arrived for good. The next chunk waits for it: what
   * cannot go on stays in the queue, where it is seen.
   *
   * @param {number} storedEvents
   * @param {(range: Range) => Promise<void>} send
   * @param {boolean} [isLast]  All goes out now.
   */
  async function pass(storedEvents, send, isLast = false) {
    if (waitingRows === 0) waitingSinceMs = Date.now()
    waitingRows += storedEvents
    for (const range of await noted()) await sendOne(range, send)
    const isDue = isLast || waitingRows >= maxRows || Date.now() - waitingSinceMs >= maxAgeMs
    if (waitingRows === 0 || !isDue) return
    await store.query(NOTE, [BigInt(maxBytes)])
    for (const range of await noted()) await sendOne(range, send)
    waitingRows = 0
  }

  /** @returns {Promise<Range[]>} */
  async function noted() {
    const found = await store.query(
      'SELECT epoch, partition, day::VARCHAR AS day, first, last, is_split FROM ranges ORDER BY partition, day, first',
    )
    return found.map(({ epoch, partition, day, first, last, is_split: isSplit }) => {
      return { epoch, partition, day, first: BigInt(first), last: BigInt(last), isSplit }
    })
  }

  /** @param {Range} range @param {(range: Range) => Promise<void>} send */
  async function sendOne(range, send) {
    await send(range)
    await store.transaction(async () => {
      await store.query(`DELETE FROM events WHERE ${OF_RANGE}`, valuesOf(range))
      await store.query(
        'DELETE FROM ranges WHERE epoch = $1 AND partition = $2 AND day = $3::DATE AND first = $4 AND last = $5',
        valuesOf(range),
      )
    })
  }

  return {
    pass,
    /**
     * The range's rows, in order, as the temporary table `outgoing`: the same ones each time.
     *
     * @param {Range} range
     */
    select: async (range) => {
      await store.query(
        `CREATE OR REPLACE TEMP TABLE outgoing AS
           SELECT * EXCLUDE (epoch) FROM events WHERE ${OF_RANGE} ORDER BY sequence, batch_id, event_index`,
        valuesOf(range),
      )
    },
    /** @param {Range} range */
    split: async (range) => {
      await store.query(
        'UPDATE ranges SET is_split = true WHERE epoch = $1 AND partition = $2 AND day = $3::DATE AND first = $4 AND last = $5',
        valuesOf(range),
      )
    },
  }
}

/** @param {Range} range */
function valuesOf({ epoch, partition, day, first, last }) {
  return [epoch, partition, day, first, last]
}
