import { spawn } from 'node:child_process'
import { createWriteStream } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { finished } from 'node:stream/promises'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import { openJournal } from '../../src/queue/journal/journal.ts'
import { readRecords } from '../../src/queue/journal/recovery.ts'
import { readNaively, withFolder } from '../support/journal.ts'

const WRITER = fileURLToPath(new URL('../support/journal-writer.mjs', import.meta.url))
const ROUNDS = Number(process.env.SLUICE_TEST_CRASH_ROUNDS ?? 10)

/** Runs the writer for `lifeMs`, and until it has printed something; then kills it and returns its output. */
async function runAndKill(directory: string, first: number, lifeMs: number, logPath: string): Promise<number[]> {
  const writer = spawn(process.execPath, [WRITER, directory, String(first)], { stdio: ['ignore', 'pipe', 'inherit'] })
  const log = createWriteStream(logPath)
  writer.stdout.pipe(log)
  await new Promise((resolve) => writer.stdout.once('data', resolve))
  await new Promise((resolve) => setTimeout(resolve, lifeMs))
  writer.kill('SIGKILL')
  await finished(log)
  const lines = (await readFile(logPath, 'utf8')).split('\n')
  // The last line may be torn too.
  lines.pop()
  return lines.map(Number)
}

it(
  `keeps all that it said was durable, each once and whole, when it is killed at any moment (${ROUNDS} times)`,
  () =>
    withFolder(async (folder) => {
      const directory = join(folder, 'journal')
      const promised: number[] = []
      let first = 1
      let tornLines = 0
      for (let round = 0; round < ROUNDS; round += 1) {
        const lifeMs = Math.random() * 300
        const printed = await runAndKill(directory, first, lifeMs, join(folder, 'printed'))
        for (const number of printed) promised.push(number)

        const seen: number[] = []
        let corruptLines = 0
        await readRecords(
          directory,
          null,
          ({ batchId }) => void seen.push(Number(batchId.slice(24))),
          () => void corruptLines++,
        )
        expect(corruptLines).toBe(0)
        const present = new Set(seen)
        expect(present.size, 'none twice').toBe(seen.length)
        expect(promised.filter((number) => !present.has(number))).toEqual([])
        first = Math.max(0, ...seen) + 1

        const journal = await openJournal({ directory, maxBytes: 1e9, keepHours: null })
        tornLines += journal.cutBytes > 0 ? 1 : 0
        await journal.stop()
        expect(await readNaively(directory)).toHaveLength(seen.length)
      }
      console.log(`${promised.length} records in ${ROUNDS} lives; ${tornLines} of them ended within a line`)
    }),
  600_000,
)
