// A process that appends numbered records as fast as it can and prints each number once it is durable, until it is
// killed. Arguments: folder, first number.
import { writeSync } from 'node:fs'
import { openJournal } from '../../dist/queue/journal/journal.js'

const [, , directory, first] = process.argv
const IN_FLIGHT = 64
const journal = await openJournal({ directory, maxBytes: 1e9, keepHours: null, segmentBytes: 1_000_000 })
let next = Number(first)

function writeOne() {
  const number = next
  next += 1
  const id = String(number).padStart(12, '0')
  // Lengths differ, so that a kill tears lines at every place.
  const events = [{ number, filling: 'x'.repeat((number * 7919) % 3000) }]
  const record = {
    v: 1,
    batch_id: `00000000-0000-5000-8000-${id}`,
    app_id: 'demo',
    received_at: new Date().toISOString(),
    events,
  }
  const line = Buffer.from(`${JSON.stringify(record)}\n`)
  journal.publish({ line, batchId: record.batch_id, appId: 'demo', keyed: true }, (settlement) => {
    if (settlement !== 'durable') throw new Error(`${number} is ${settlement}`)
    // At once, and not through a buffer of this process, which would die with it.
    writeSync(1, `${number}\n`)
    setImmediate(writeOne)
  })
}

for (let index = 0; index < IN_FLIGHT; index += 1) writeOne()
