// Bugs of one machine: the journal, its snapshots and recovery, the limits and the keys in memory.

/** Generated histories of one machine with a simulated disk. */
const HISTORIES = 'simulate journal 1000'
const POWER_CUT = 'test/unit/queue/journal/power-cut.test.ts'
const JOURNAL = 'test/unit/queue/journal/journal.test.ts'
const FAILING_DISK = 'test/unit/queue/journal/failing-disk.test.ts'
const OPENING = 'test/unit/queue/journal/opening.test.ts'
const OLD_SEGMENTS = 'test/unit/queue/journal/old-segments.test.ts'
const RECOVERY = 'test/unit/queue/journal/recovery.test.ts'
const KEEP = 'test/unit/queue/journal/journal-keep.test.ts'
const PACE = 'test/unit/queue/journal/commit-pace.test.ts'
const DAMAGE = 'test/unit/queue/journal/damage.test.ts'
const DIRECT = 'test/unit/queue/journal/direct-writes.test.ts'
const LIMITER = 'test/unit/limits/own/memory-limiter.test.ts'
const LIMITER_PROPERTY = 'test/unit/limits/own/memory-limiter.property.test.ts'
const ADMISSION_CONTRACT = 'test/integration/admission-contract.test.ts'
const KEYS = 'test/unit/keys/memory-deduplicator.test.ts'
const SEGMENTS_FILE = 'queue/journal/segments.ts'
const SNAPSHOT_FILE = 'queue/journal/snapshot.ts'
const RECOVERY_FILE = 'queue/journal/recovery.ts'
const JOURNAL_FILE = 'queue/journal/journal.ts'
const FILES_FILE = 'queue/journal/journal-files.ts'
const OPEN_FILE = 'queue/journal/open-segment.ts'
const CURSOR_FILE = 'queue/journal/segment-cursor.ts'
const LIMITER_FILE = 'limits/own/memory-limiter.ts'
const KEYS_FILE = 'keys/memory-deduplicator.ts'
const BYTES_FILE = 'limits/stored-bytes.ts'
const BYTES = 'test/unit/limits/stored-bytes.test.ts'
const INGEST = 'test/unit/request/ingest.test.ts'
const FILLING = 'test/unit/queue/filling.test.ts'

/** @type {readonly import('./main.js').Mutant[]} */
export const ONE_MACHINE = [
  {
    name: 'j1',
    bug: 'writes to a segment are not synced',
    file: 'queue/journal/disk.ts',
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
    tests: [HISTORIES, RECOVERY],
  },
  {
    name: 'j5',
    bug: 'what a failed write left is not truncated',
    file: FILES_FILE,
    find: `    this.#mustTruncate = true
    const { disk } = this.#options`,
    replace: '    const { disk } = this.#options',
    tests: [HISTORIES, FAILING_DISK],
  },
  {
    name: 'j6',
    bug: 'records are answered before they are written',
    file: JOURNAL_FILE,
    find: '    this.#files.append(batch.lines, batch.bytes, this.#onWritten)',
    replace: `    this.#files.append([...batch.lines], batch.bytes, () => {})
    setImmediate(() => this.#onWritten(null, batch.bytes))`,
    tests: [HISTORIES, POWER_CUT, JOURNAL],
  },
  {
    name: 'j7',
    bug: 'a snapshot is not synced before its rename',
    file: SNAPSHOT_FILE,
    find: '    await file.sync()\n',
    replace: '',
    tests: [HISTORIES, POWER_CUT],
  },
  {
    name: 'j8',
    bug: 'the position moves before its records are settled',
    file: JOURNAL_FILE,
    find: "    this.#ack(batch, 'durable', end)",
    replace: "    this.#position = end\n    setImmediate(() => this.#ack(batch, 'durable', end))",
    tests: [HISTORIES, POWER_CUT],
  },
  {
    name: 'j9',
    bug: 'the folder is not synced after a new segment',
    file: SEGMENTS_FILE,
    find: `    await file.sync()
    await disk.syncFolder(directory)
  } catch`,
    replace: `    await file.sync()
  } catch`,
    tests: [HISTORIES, POWER_CUT],
  },
  {
    name: 'j10',
    bug: 'the folder is not synced after the rename of a snapshot',
    file: SNAPSHOT_FILE,
    find: '  await disk.syncFolder(dataDirectory)\n',
    replace: '',
    tests: [HISTORIES, POWER_CUT],
  },
  {
    name: 'j11',
    bug: 'large writes past the page cache are not synced',
    file: 'queue/journal/disk.ts',
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
    tests: [HISTORIES, OPENING],
  },
  {
    name: 'j13',
    bug: 'a record that is being written counts at the recovery',
    file: 'queue/journal/segment-cursor.ts',
    find: '      if (limit !== Number.POSITIVE_INFINITY) this.#endsAt(from + bytesRead)',
    replace: '      if (bytesRead > 0) onLine(0, bytesRead, this.#end, true)',
    tests: [RECOVERY],
  },
  {
    name: 'j14',
    bug: 'the journal writes before the position of its snapshot',
    file: OPEN_FILE,
    find: 'resumeAfter !== null && comparePositions({ segment: number, offset: bytes }, resumeAfter) < 0',
    replace: 'resumeAfter !== null && comparePositions({ segment: number, offset: bytes }, resumeAfter) > 1e15',
    tests: [OPENING],
  },
  {
    name: 'j15',
    bug: 'segments go while their keys may be remembered',
    file: JOURNAL_FILE,
    find: 'const MIN_KEEP_MS = 600_000',
    replace: 'const MIN_KEEP_MS = 60_000',
    tests: [HISTORIES, OLD_SEGMENTS],
  },
  {
    name: 'j16',
    bug: 'records go on into a file that was removed',
    file: FILES_FILE,
    find: '      if (nlink === 0) {',
    replace: '      if (nlink < 0) {',
    tests: [JOURNAL],
  },
  {
    name: 'j17',
    bug: 'what a refused batch took is not given back',
    file: LIMITER_FILE,
    find: '    if (events > 0) this.#endFlight(app, events, takenAtMs, events)',
    replace: '    if (events > 0) this.#endFlight(app, events, takenAtMs, 0)',
    tests: [LIMITER_PROPERTY],
  },
  {
    name: 'j18',
    bug: 'a refund goes into a window that began after the take',
    file: 'limits/own/window-counts.ts',
    find: '  return count.startMs <= timeMs && timeMs < count.endMs',
    replace: '  return timeMs < count.endMs',
    tests: [LIMITER_PROPERTY],
  },
  {
    name: 'j19',
    bug: 'the day allows one batch beyond its limit',
    file: 'limits/limiter.ts',
    find: 'dayUsed + events > app.eventsPerDay',
    replace: 'dayUsed >= app.eventsPerDay',
    tests: [ADMISSION_CONTRACT],
  },
  {
    name: 'j20',
    bug: 'a restored snapshot brings back the counts of yesterday',
    file: LIMITER_FILE,
    find: '      if (sameDay) counts.day.used = dayUsed',
    replace: '      counts.day.used = sameDay ? dayUsed : dayUsed',
    tests: [LIMITER, LIMITER_PROPERTY],
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
    find: '    this.#unackedBytes -= batch.bytes',
    replace: "    if (ack === 'durable') this.#unackedBytes -= batch.bytes",
    tests: [FAILING_DISK],
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
    find: '      heldUntilMs = atMs + keepMs',
    replace: '      heldUntilMs = atMs',
    tests: [OLD_SEGMENTS, KEEP],
  },
  {
    name: 'j27',
    bug: 'a commit that was put off is never written',
    file: 'queue/journal/commit-pace.ts',
    find: '    if (waitMs <= 0) return false',
    replace: '    if (waitMs <= 0) return false\n    if (bytes < ENOUGH_BYTES) return true',
    tests: [PACE],
  },
  {
    name: 'j28',
    bug: 'a filled block damages the record before it',
    file: 'contract/record/record-lines.ts',
    find: 'const braceAt = end - END_OF_LINE.length',
    replace: 'const braceAt = end - END_OF_LINE.length - 1',
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
  {
    name: 'j30',
    bug: 'the name of a segment that a killed process was making is not synced',
    file: SEGMENTS_FILE,
    find: '    await disk.syncFolder(dirname(path))\n',
    replace: '    dirname(path)\n',
    tests: [HISTORIES],
  },
  {
    name: 'j31',
    bug: 'checksums are not compared',
    file: CURSOR_FILE,
    find: 'start + commit.length) === commit.crc',
    replace: 'start + commit.length) >= 0',
    tests: [DAMAGE],
  },
  {
    name: 'j32',
    bug: 'records go on into a segment that another program has changed',
    file: FILES_FILE,
    find: '      if (size !== this.#end + writtenBytes) {',
    replace: '      if (size < 0) {',
    tests: [DAMAGE],
  },
  {
    name: 'j33',
    bug: 'records go on into a segment after a sync of it failed',
    file: FILES_FILE,
    find: "      this.#fault = 'failed'\n",
    replace: '',
    tests: [HISTORIES, DIRECT],
  },
  {
    name: 'j34',
    bug: 'a damaged newline at the end of the records is cut as a torn line',
    file: OPEN_FILE,
    find: 'await cutTornTail(path, durable, disk)',
    replace: 'await cutTornTail(path, 0, disk)',
    tests: [DAMAGE],
  },
  {
    name: 'j35',
    bug: 'a damaged newline merges two records',
    file: CURSOR_FILE,
    find: '      if (endAt < stop && parseRecordStart(bytes, endAt + 1, stop) !== null) stop = endAt',
    replace: '      if (endAt < 0 && parseRecordStart(bytes, endAt + 1, stop) !== null) stop = endAt',
    tests: [DAMAGE],
  },
  {
    name: 'j36',
    bug: 'a checksum is written before its bytes are durable',
    file: FILES_FILE,
    find: '    // While the disk works.\n    this.#memory.crc()',
    replace:
      '    this.#open.side.add({ offset: this.#end, length: commit.length, crc: this.#memory.crc() }, this.#memory.pairs)',
    tests: [DAMAGE],
  },
  {
    name: 'j37',
    bug: 'what lies beside a segment gets its number again after the segment was removed',
    file: OPEN_FILE,
    find: 'Math.max(after, (await usedNumbers(directory, disk)).at(-1) ?? 0) + 1',
    replace: 'after + Math.min(1, await usedNumbers(directory, disk).then(() => 1))',
    tests: [DAMAGE],
  },
  {
    name: 'j38',
    bug: 'a clock that is set back and right again gives a minute out twice',
    file: 'limits/own/window-counts.ts',
    find: '  minute.used = used\n',
    replace: '',
    tests: [LIMITER],
  },
  {
    name: 'j39',
    bug: 'a segment that another program made longer is not noticed',
    file: FILES_FILE,
    find: '      if (size !== this.#end + writtenBytes) {',
    replace: '      if (size < this.#end + writtenBytes) {',
    tests: [HISTORIES, DAMAGE],
  },
  {
    name: 'j40',
    bug: 'a commit behind the bytes of another program is not taken out again when it is written anew',
    file: FILES_FILE,
    find: "    this.#mustTruncate = true\n    this.#fault = 'changed'",
    replace: "    this.#fault = 'changed'",
    tests: [HISTORIES],
  },
  {
    name: 'j41',
    bug: 'a segment that was cut before a longer commit is taken for one that another program has written to',
    file: FILES_FILE,
    find: 'if (size >= this.#end + writtenBytes) leave(this.#end)',
    replace: 'if (size >= this.#end) leave(this.#end)',
    tests: [HISTORIES, DAMAGE],
  },
  {
    name: 'j42',
    bug: 'bytes that do not fit their checksum are told by nobody',
    file: CURSOR_FILE,
    find: "this.#onDamage({ kind: 'checksum', path: this.#path, ...placeOf(commit) })",
    replace: '',
    tests: [HISTORIES, DAMAGE],
  },
  {
    name: 'j43',
    bug: 'a segment that ends before its commits do is not reported',
    file: CURSOR_FILE,
    find: "this.#onDamage({ kind: 'missing', path: this.#path, offset: end, length })",
    replace: 'void length',
    tests: [HISTORIES, DAMAGE],
  },
  {
    name: 'j44',
    bug: 'a segment that ends within a commit whose line is damaged is not reported',
    file: CURSOR_FILE,
    find: 'if (limit !== Number.POSITIVE_INFINITY) this.#endsAt(from + bytesRead)',
    replace: 'void limit',
    tests: [DAMAGE],
  },
  {
    name: 'b1',
    bug: 'bytes of a batch that is not stored are not given back',
    file: 'request/finish.ts',
    find: 'if (app !== null && bytesTaken > 0) this.#parts.bytes.giveBack(',
    replace: 'if (app !== null && bytesTaken < 0) this.#parts.bytes.giveBack(',
    tests: [INGEST],
  },
  {
    name: 'b2',
    bug: 'bytes are given back to another minute',
    file: BYTES_FILE,
    find: 'if (count?.minute === Math.floor(takenAtMs / MINUTE_MS)) count.taken -= bytes',
    replace: 'if (count !== undefined) count.taken -= bytes',
    tests: [BYTES],
  },
  {
    name: 'b3',
    bug: 'a batch in doubt gives its bytes back',
    file: 'request/finish.ts',
    find: "if (ack === 'durable' || ack === 'in_doubt') this.#storeBytes(ticket)",
    replace: "if (ack === 'durable') this.#storeBytes(ticket)",
    tests: [INGEST],
  },
  {
    name: 'b4',
    bug: 'each node allows the whole budget',
    file: BYTES_FILE,
    find: 'Math.floor(bytesPerMinute / parts)',
    replace: 'Math.floor(bytesPerMinute)',
    tests: [BYTES],
  },
  {
    name: 'b5',
    bug: 'the quarter is never lifted',
    file: 'queue/filling.ts',
    find: 'if (percent >= HELD_FROM || percent < HELD_UNTIL) this.#hold(percent >= HELD_FROM)',
    replace: 'if (percent >= HELD_FROM) this.#hold(true)',
    tests: [FILLING],
  },
  {
    name: 'b6',
    bug: 'the quarter is lifted with room in one of two stores',
    file: BYTES_FILE,
    find: 'else this.#filling.delete(store)',
    replace: 'else this.#filling.clear()',
    tests: [BYTES],
  },
  {
    name: 'b7',
    bug: 'a batch beyond its bytes is refused although its key was accepted',
    file: 'request/ingest.ts',
    find: 'return this.#refuseOrReplay(ticket, validation, overBytes(',
    replace: 'return this.#refuse(ticket, validation, overBytes(',
    tests: [INGEST],
  },
  {
    name: 'b8',
    bug: 'apps that stored most are never compared anew as time passes',
    file: BYTES_FILE,
    find: '        } else this.#compare(count, minute)\n',
    replace: '        } else if (count.lastHour(minute) < 0) this.#compare(count, minute)\n',
    tests: [BYTES],
  },
]
