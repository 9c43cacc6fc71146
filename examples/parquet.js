// The queue into Parquet files, for S3 or what is like it: FOLDER/files/date=2026-11-20/p07-000000001234-1a2b3c4d.parquet,
// named by the first sequence of partition 7 that is in it. A file appears whole, and never changes.

import { mkdir, open, rename } from 'node:fs/promises'
import { join } from 'node:path'
import { openRanges } from './shared/ranges.js'
import { run } from './shared/run.js'

/** Of the text of events, in one file. */
const MAX_FILE_BYTES = 268_435_456

await run({
  name: 'parquet',
  help: `Writes each event once into Parquet files, by day and partition, under FOLDER/files.

  --rows N        a file is written at so many rows (100000)
  --seconds N     or when the oldest row has waited so long (60), or at Ctrl-C or SIGTERM`,
  options: { rows: { type: 'string' }, seconds: { type: 'string' } },
  begin: async ({ folder, store, log, options: { rows = '100000', seconds = '60' } }) => {
    const ranges = await openRanges(store, {
      maxRows: Number(rows),
      maxAgeMs: Number(seconds) * 1000,
      maxBytes: MAX_FILE_BYTES,
    })

    let hasEvents = false
    const atRows = Number(rows).toLocaleString('en')
    log(`first file in ${seconds} s or at ${atRows} rows, counted from the first event; Ctrl-C writes what has come`)

    return {
      afterChunk: async (storedEvents) => {
        if (!hasEvents && storedEvents > 0) log('the first events have come')
        hasEvents ||= storedEvents > 0
        await ranges.pass(storedEvents, writeFile)
      },
      finish: async () => await ranges.pass(0, writeFile, true),
    }

    /**
     * After a crash it is written again, with the same rows under the same name. An object store needs no renaming: there
     * an upload is seen only when it is whole.
     *
     * @param {import('./shared/ranges.js').Range} range
     */
    async function writeFile(range) {
      const { epoch, partition, day, first } = range
      const name = `p${partition.padStart(2, '0')}-${String(first).padStart(12, '0')}-${epoch}.parquet`
      const directory = join(folder, 'files', `date=${day}`)
      const aside = join(directory, `.${name}.tmp`)
      await mkdir(directory, { recursive: true })
      await ranges.select(range)
      await store.query(`COPY outgoing TO '${aside.replaceAll("'", "''")}' (FORMAT parquet, COMPRESSION zstd)`)
      await sync(aside)
      await rename(aside, join(directory, name))
      // The name is durable with its folder.
      await sync(directory)
      log(`wrote ${join(directory, name)}`)
    }
  },
})

/** @param {string} path */
async function sync(path) {
  const handle = await open(path, 'r')
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}
