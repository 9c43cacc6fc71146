// Durability of a 202 across a power failure: the kernel syncs each write to the journal before it returns.

import { constants, readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { expect, test } from 'vitest'
import { expectAccepted, post, single } from '../support/client.ts'
import { appRecord, makeFolder, startService } from '../support/service.ts'

/** Flags of the process's descriptors that point at a segment. */
function segmentFlags(pid: number): number[] {
  const numbers = readdirSync(`/proc/${pid}/fd`).filter((number) => {
    try {
      return readlinkSync(`/proc/${pid}/fd/${number}`).endsWith('.ndjson')
    } catch {
      // It was closed after the listing.
      return false
    }
  })
  return numbers.map((number) => {
    const text = readFileSync(`/proc/${pid}/fdinfo/${number}`, 'utf8')
    return Number.parseInt(/^flags:\s*([0-7]+)$/m.exec(text)?.[1] ?? '0', 8)
  })
}

test.runIf(process.platform === 'linux')(
  'writes to a segment are synced, one that is new and one found at the start',
  async () => {
    const folder = await makeFolder()
    try {
      for (let start = 0; start < 2; start++) {
        const service = await startService({ dataDir: folder, apps: [appRecord('plain')] })
        try {
          expectAccepted(await post(service, single('ak_plain')), 1)
          const flags = segmentFlags(service.pid)
          expect(flags).toHaveLength(1)
          expect((flags[0] ?? 0) & constants.O_DSYNC).toBe(constants.O_DSYNC)
        } finally {
          await service.kill()
        }
      }
    } finally {
    }
  },
)
