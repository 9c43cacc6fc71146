// Bugs of one machine: the journal, its snapshots and recovery, the limits and the keys in memory.

const POWER_CUT = 'test/unit/queue/journal/power-cut.test.ts'
const JOURNAL = 'test/unit/queue/journal/journal.test.ts'
const RECOVERY = 'test/unit/queue/journal/recovery.test.ts'
const KEEP = 'test/unit/queue/journal/journal-keep.test.ts'
const PACE = 'test/unit/queue/journal/commit-pace.test.ts'
const DIRECT = 'test/unit/queue/journal/direct-writes.test.ts'
const LIMITER = 'test/unit/limits/own/memory-limiter.test.ts'
const LIMITER_PROPERTY = 'test/unit/limits/own/memory-limiter.property.test.ts'
const KEYS = 'test/unit/keys/memory-deduplicator.test.ts'
const SEGMENTS_FILE = 'queue/journal/segments.ts'
const SNAPSHOT_FILE = 'queue/journal/snapshot.ts'
const RECOVERY_FILE = 'queue/journal/recovery.ts'
const JOURNAL_FILE = 'queue/journal/journal.ts'
const FILES_FILE = 'queue/journal/journal-files.ts'
const LIMITER_FILE = 'limits/own/memory-limiter.ts'
const KEYS_FILE = 'keys/memory-deduplicator.ts'

/** @type {readonly import('./main.js').Mutant[]} */
export const ONE_MACHINE = [
  {
    name: 'j1',
    bug: 'writes to a segment are not synced',
    file: SEGMENTS_FILE,
    find: '(WRITES_ARE_SYNCED ? constants.O_DSYNC : 0)',
    replace: '0',
    tests: [POWER_CUT],
  },
  {
    name: 'j2',
    bug: 'a snapshot counts what is in flight',
    file: LIMITER_FILE,
    find: 'used: used - pending }))',
    replace: 'used: pending > 0 ? used : used - pending }))',
    tests: [LIMITER_PROPERTY],
  },
  {
    name: 'j3',
    bug: 'records before the snapshot are counted again',
    file: RECOVERY_FILE,
    find: '    if (!isCovered) {',
    replace: '    if (!isCovered || segment > 0) {',
    tests: [RECOVERY],
  },
  {
    name: 'j4',
    bug: 'a start finds the keys of the last 30 s only',
    file: RECOVERY_FILE,
    find: 'IDEMPOTENCY_WINDOW_SECONDS * 1000',
    replace: 'IDEMPOTENCY_WINDOW_SECONDS * 100',
    tests: [RECOVERY],
  },
  {
    name: 'j5',
    bug: 'what a failed write left is not truncated',
    file: FILES_FILE,
    find: `        // After a failed sync no part of the write counts as durable, whatever the file's length is.
        this.#mustTruncate = true`,
    replace: '        this.#mustTruncate = false',
    tests: [JOURNAL],
  },
  {
    name: 'j6',
    bug: 'records are answered before they are written',
    file: JOURNAL_FILE,
    find: '    this.#files.append(batch.lines, batch.bytes, this.#onWritten)',
    replace: `    this.#files.append([...batch.lines], batch.bytes, () => {})
    setImmediate(() => this.#onWritten(null, batch.bytes))`,
    tests: [POWER_CUT, JOURNAL],
  },
  {
    name: 'j7',
    bug: 'a snapshot is not synced before its rename',
    file: SNAPSHOT_FILE,
    find: '    await handle.sync()\n',
    replace: '',
    tests: [POWER_CUT],
  },
  {
    name: 'j8',
    bug: 'the position moves before its records are settled',
    file: JOURNAL_FILE,
    find: "    this.#settle(batch, 'durable', end)",
    replace: "    this.#position = end\n    setImmediate(() => this.#settle(batch, 'durable', end))",
    tests: [POWER_CUT],
  },
  {
    name: 'j9',
    bug: 'the folder is not synced after a new segment',
    file: SEGMENTS_FILE,
    find: `    await handle.sync()
    await syncFolder(directory)
  } catch`,
    replace: `    await handle.sync()
  } catch`,
    tests: [POWER_CUT],
  },
  {
    name: 'j10',
    bug: 'the folder is not synced after the rename of a snapshot',
    file: SNAPSHOT_FILE,
    find: '  await syncFolder(dataDirectory)\n',
    replace: '',
    tests: [POWER_CUT],
  },
  {
    name: 'j11',
    bug: 'large writes past the page cache are not synced',
    file: 'queue/journal/direct-writes.ts',
    find: 'constants.O_APPEND | constants.O_DSYNC | constants.O_DIRECT',
    replace: 'constants.O_APPEND | constants.O_DIRECT',
    tests: [POWER_CUT],
  },
  {
    name: 'j12',
    bug: 'a torn line stays when the journal is opened',
    file: SEGMENTS_FILE,
    find: '    if (bytes < size) {',
    replace: '    if (bytes > size) {',
    tests: [JOURNAL],
  },
  {
    name: 'j13',
    bug: 'a record that is being written counts at the recovery',
    file: 'queue/journal/segment-lines.ts',
    find: '    if (bytesRead < length) return false',
    replace: `    if (bytesRead < length) {
      if (bytesRead > 0) onLine(0, bytesRead, this.#end)
      return false
    }`,
    tests: [RECOVERY],
  },
  {
    name: 'j14',
    bug: 'the journal writes before the position of its snapshot',
    file: FILES_FILE,
    find: 'resumeAfter !== null && comparePositions(end, resumeAfter) < 0',
    replace: 'resumeAfter !== null && comparePositions(end, resumeAfter) > 1e15',
    tests: [JOURNAL],
  },
  {
    name: 'j15',
    bug: 'segments go while their keys may be remembered',
    file: JOURNAL_FILE,
    find: 'const MIN_KEEP_MS = 600_000',
    replace: 'const MIN_KEEP_MS = 60_000',
    tests: [JOURNAL],
  },
  {
    name: 'j16',
    bug: 'records go on into a file that was removed',
    file: FILES_FILE,
    find: '    return fstatSync(this.#handle.fd).nlink === 0',
    replace: '    return fstatSync(this.#handle.fd).nlink < 0',
    tests: [JOURNAL],
  },
  {
    name: 'j17',
    bug: 'what a refused batch took is not given back',
    file: LIMITER_FILE,
    find: '    if (events > 0) this.#endFlight(app, events, takenAtMs, events)',
    replace: '    if (events > 0) this.#endFlight(app, events, takenAtMs, 0)',
    tests: [LIMITER],
  },
  {
    name: 'j18',
    bug: 'a refund goes into a window that began after the take',
    file: 'limits/own/window-counts.ts',
    find: '  return count.startMs <= timeMs && timeMs < count.endMs',
    replace: '  return timeMs < count.endMs',
    tests: [LIMITER, LIMITER_PROPERTY],
  },
  {
    name: 'j19',
    bug: 'the day allows one batch beyond its limit',
    file: LIMITER_FILE,
    find: 'day.used + events > app.eventsPerDay',
    replace: 'day.used >= app.eventsPerDay',
    tests: [LIMITER],
  },
  {
    name: 'j20',
    bug: 'a restored snapshot brings back the counts of yesterday',
    file: LIMITER_FILE,
    find: '      if (sameDay) counts.day.used = dayUsed',
    replace: '      counts.day.used = sameDay ? dayUsed : dayUsed',
    tests: [LIMITER],
  },
  {
    name: 'j21',
    bug: 'a released key is not given to the request that waits',
    file: KEYS_FILE,
    find: `    this.#inFlight.set(batchId, waiters.length > 0 ? waiters : null)
    next(CLAIMED)`,
    replace: '    next(CLAIMED)',
    tests: [KEYS],
  },
  {
    name: 'j22',
    bug: 'a key is forgotten a second early',
    file: 'keys/accepted-keys.ts',
    find: 'this.#ageMs(entry - 1, nowMs) > this.#windowMs) return -1',
    replace: 'this.#ageMs(entry - 1, nowMs) > this.#windowMs - 1000) return -1',
    tests: [KEYS],
  },
  {
    name: 'j23',
    bug: 'a request waits for its key without a replay at its end',
    file: KEYS_FILE,
    find: "for (const resolve of waiters) resolve({ kind: 'replay', events, eventsHash: eventsHash || undefined })",
    replace: 'for (const resolve of waiters) resolve(CLAIMED)',
    tests: [KEYS],
  },
  {
    name: 'j24',
    bug: 'a failed write keeps the room that its records had reserved',
    file: JOURNAL_FILE,
    find: '    this.#unsettledBytes -= batch.bytes',
    replace: "    if (settlement === 'durable') this.#unsettledBytes -= batch.bytes",
    tests: [JOURNAL],
  },
  {
    name: 'j25',
    bug: 'a start reads too little of the journal for the keys',
    file: 'queue/journal/time-marks.ts',
    find: 'this.#marks[1].atMs <= nowMs - WINDOW_MS',
    replace: 'this.#marks[1].atMs <= nowMs - WINDOW_MS / 2',
    tests: [JOURNAL],
  },
  {
    name: 'j26',
    bug: 'old segments go at once where the clock jumped ahead',
    file: 'queue/journal/journal-keep.ts',
    find: '      heldUntilMs = nowMs + keepMs',
    replace: '      heldUntilMs = nowMs',
    tests: [JOURNAL, KEEP],
  },
  {
    name: 'j27',
    bug: 'a commit that was put off is never written',
    file: 'queue/journal/commit-pace.ts',
    find: '    if (this.#isDeferred) this.#timers.setTimeout(commit, waitMs)',
    replace: '    if (this.#isDeferred && bytes > ENOUGH_BYTES) this.#timers.setTimeout(commit, waitMs)',
    tests: [PACE],
  },
  {
    name: 'j28',
    bug: 'a filled block damages the record before it',
    file: 'queue/journal/direct-writes.ts',
    find: 'last.subarray(0, last.length - END_OF_RECORD.length), end]',
    replace: 'last.subarray(0, last.length - END_OF_RECORD.length - 1), end]',
    tests: [DIRECT, POWER_CUT],
  },
  {
    name: 'j29',
    bug: 'the names of the folders that a first start makes are not synced',
    file: 'lib/folder.ts',
    find: '      await syncFolder(dirname(path))\n',
    replace: '',
    tests: [POWER_CUT],
  },
]
