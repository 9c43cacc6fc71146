// node judge.js FILE < RECORDS: FILE is what sender.js wrote, RECORDS what `sluice tail --records` prints. One row of the table; exit
// code 1 where a batch that was answered 202 is not in the stream, or is there twice.

import { readFileSync } from 'node:fs'
import { basename } from 'node:path'
import { createInterface } from 'node:readline'

const [file] = process.argv.slice(2)
const times = new Map()
let records = 0
for await (const line of createInterface({ input: process.stdin })) {
  if (!line.startsWith('{')) continue
  records++
  const key = JSON.parse(line).events[0]?.session_id
  times.set(key, (times.get(key) ?? 0) + 1)
}
const lines = readFileSync(file, 'utf8')
  .split('\n')
  .filter((line) => line.startsWith('{'))
  .map((line) => JSON.parse(line))
const end = lines.find((line) => line.sent !== undefined)
const batches = lines.filter((line) => line.key !== undefined)
const accepted = batches.filter(({ status }) => status === 202)
const lost = accepted.filter(({ key }) => !times.has(key)).length
const twice = batches.filter(({ key }) => (times.get(key) ?? 0) > 1).length
const list = (counts) =>
  Object.entries(counts)
    .map(([what, count]) => `${count} × ${what}`)
    .join(', ') || '0'
const isWhole = end !== undefined && batches.length === end.sent && accepted.length === end.sent && records > 0
console.log(
  `| ${basename(file, '.jsonl')} | ${batches.length} | ${accepted.length} | ${list(end?.refusals ?? {})} | ${list(end?.errors ?? {})} | ${lost} / ${twice} | ${end?.gapSeconds ?? '?'} s |${isWhole ? '' : ' not all was answered 202'}`,
)
process.exitCode = lost === 0 && twice === 0 && isWhole ? 0 : 1
