// @ts-check
// Writes a journal of many small records, and times how long `sluice find` takes for some of them. Run by hand:
// node load/find/journal.js [RECORDS] [RECORDS A SECOND]

import { spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { closeSync, mkdirSync, mkdtempSync, openSync, rmSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'

const MAIN = resolve(import.meta.dirname, '../../dist/main.js')
const SEGMENT_BYTES = 64 * 1024 * 1024
const CHUNK_BYTES = 4 * 1024 * 1024
const records = Number(process.argv[2] ?? 10_000_000)
const recordsPerSecond = Number(process.argv[3] ?? 10_000)
const EVENT = JSON.stringify({
  type: 'track',
  name: 'opened',
  hashed_daily_id: 'd2f1c0a9b8e7d6c5',
  hashed_monthly_id: 'a1b2c3d4e5f60718',
  session_id: '0b9e3a52-6f0c-4d7e-9a55-2f8c1d3e4b6a',
  timestamp: '2026-11-20T12:00:00Z',
  context: { os: 'iOS' },
})

const folder = mkdtempSync(join(tmpdir(), 'sluice-find-'))
process.on('exit', () => rmSync(folder, { recursive: true, force: true }))
process.on('SIGINT', () => process.exit(1))

/** @param {number} timeMs */
function idAt(timeMs) {
  const hex = timeMs.toString(16).padStart(12, '0')
  const random = randomBytes(10).toString('hex')
  return `${hex.slice(0, 8)}-${hex.slice(8)}-7${random.slice(0, 3)}-8${random.slice(3, 6)}-${random.slice(6, 18)}`
}

/** As an id that comes from a key: it tells no time. */
const keyedId = idAt(0).replace('-7', '-5')

/** Returns the ids at the places given. The first record is stored under a key too. */
function write(/** @type {readonly number[]} */ places) {
  const directory = join(folder, 'journal')
  mkdirSync(directory)
  const startMs = Date.now() - (records / recordsPerSecond) * 1000
  /** @type {string[]} */
  const ids = []
  let text = ''
  let segment = 0
  let file = -1
  let bytes = SEGMENT_BYTES
  const flush = () => {
    if (bytes >= SEGMENT_BYTES) {
      if (file >= 0) closeSync(file)
      segment++
      file = openSync(join(directory, `${String(segment).padStart(12, '0')}.ndjson`), 'w')
      bytes = 0
    }
    bytes += writeSync(file, text)
    text = ''
  }
  for (let at = 0; at < records; at++) {
    const timeMs = Math.floor(startMs + (at / recordsPerSecond) * 1000)
    const id = at === 0 ? keyedId : idAt(timeMs)
    if (places.includes(at)) ids.push(id)
    text += `{"v":1,"batch_id":"${id}","app_id":"demo","received_at":"${new Date(timeMs).toISOString()}","events":[${EVENT}]}\n`
    if (text.length >= CHUNK_BYTES) flush()
  }
  flush()
  closeSync(file)
  return ids
}

const places = [0.01, 0.1, 0.5, 0.9].map((share) => Math.floor(share * records)).concat(records - 1)
console.log(`writing ${records.toLocaleString('en-US')} records, ${recordsPerSecond} of a second, to ${folder}`)
const ids = write(places)
const absent = idAt(Date.now() - (records / recordsPerSecond) * 500)
const key = ['--app', 'demo', '--key', '0b9e3a52-6f0c-4d7e-9a55-2f8c1d3e4b6a']
/** @type {{ name: string, args: string[] }[]} */
const searches = [
  ...ids.map((id, index) => ({ name: `record ${places[index]}`, args: [id] })),
  { name: 'an id that is not there', args: [absent] },
  { name: 'the key of record 0, by its id', args: [keyedId] },
  { name: 'a key that is not there', args: key },
  { name: 'a key that is not there, in the last ten minutes', args: [...key, '--since', '10m'] },
]
for (const { name, args } of searches) {
  const startedAtMs = performance.now()
  const { status } = spawnSync(process.execPath, [MAIN, 'find', ...args], {
    env: { PATH: process.env['PATH'], SLUICE_DATA_DIR: folder },
  })
  const seconds = ((performance.now() - startedAtMs) / 1000).toFixed(2)
  console.log(`${seconds} s  ${name}: ${status === 0 ? 'found' : 'not found'}`)
}
