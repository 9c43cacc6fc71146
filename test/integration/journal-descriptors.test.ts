// A process that has reached the kernel's limit of file descriptors: the journal continues.

import { execFile } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { expect, it } from 'vitest'
import { readNaively } from '../support/journal.ts'
import { makeFolder } from '../support/service.ts'

const DIST = resolve(import.meta.dirname, '../../dist/queue/journal/journal.js')
const DESCRIPTORS = 64

/** Fills segments without any descriptor left, then with all of them free again, and prints the results. */
const PROGRAM = `
import { closeSync, openSync } from 'node:fs'
import { openJournal } from ${JSON.stringify(DIST)}
const notices = []
const directory = process.argv[2]
const onNotice = (message) => notices.push(message)
const journal = await openJournal({ directory, maxBytes: 1e9, keepHours: null, segmentBytes: 4096, onNotice })
const publish = () => new Promise((onAck) => {
  const line = Buffer.from(JSON.stringify({ fill: 'x'.repeat(1000) }) + '\\n')
  journal.publish({ line, batchId: '', appId: '', keyed: false }, onAck)
})
const fill = async () => {
  const settlements = []
  for (let index = 0; index < 20; index++) settlements.push(await publish())
  return { settlements: [...new Set(settlements)], segment: journal.position().segment }
}
const taken = []
let full = ''
while (full === '') {
  try {
    taken.push(openSync('/dev/null'))
  } catch (error) {
    full = error.code
  }
}
const without = await fill()
await journal.sweep()
await journal.sweep()
for (const descriptor of taken) closeSync(descriptor)
const again = await fill()
await journal.stop()
console.log(JSON.stringify({ full, without, again, notices }))
`

it('takes records without a free descriptor, and creates segments again when it has one', async () => {
  const folder = await makeFolder()
  const program = join(folder, 'program.mjs')
  await writeFile(program, PROGRAM)
  const directory = join(folder, 'journal')
  const command = `ulimit -n ${DESCRIPTORS} && exec "$0" "$1" "$2"`
  const { stdout } = await promisify(execFile)('sh', ['-c', command, process.execPath, program, directory])
  const { full, without, again, notices } = JSON.parse(stdout)
  expect(full).toBe('EMFILE')
  expect(without).toEqual({ settlements: ['durable'], segment: 1 })
  expect(again.settlements).toEqual(['durable'])
  expect(again.segment).toBeGreaterThan(2)
  expect(await readNaively(directory)).toHaveLength(40)
  expect(notices).toHaveLength(3)
  expect(notices[0]).toMatch(/^the next segment of the journal cannot be created \(EMFILE/)
  expect(notices[1]).toMatch(
    /^old segments of the journal were not removed, and take their room until the next try: EMFILE/,
  )
  expect(notices[2]).toBe('the journal creates new segments again')
})
