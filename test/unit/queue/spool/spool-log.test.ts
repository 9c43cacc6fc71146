import { expect, test } from 'vitest'
import { SpoolLog } from '../../../../src/queue/spool/spool-log.ts'
import { ManualTimers } from '../../../support/timers.ts'

test.each([
  [0, 0, '0 more follow (0 B)'],
  [2, 2048, '2 more follow (2 KiB)'],
])('when NATS takes the first of a spool again, the line says what is left: %i batches', (batches, bytes, says) => {
  const notices: string[] = []
  const contents = { batches: 1, bytes: 347, oldestAtMs: 0 }
  const options = { timers: new ManualTimers(), onNotice: (notice: string) => void notices.push(notice) }
  const log = new SpoolLog(
    options,
    () => contents,
    { maxBytes: () => 1e9 },
    () => false,
  )
  Object.assign(contents, { batches, bytes })
  log.sent()
  log.sent()
  expect(notices.slice(1)).toEqual([
    `NATS takes batches again: the first of the spool is sent, and ${says}, oldest first`,
  ])
  log.stop()
})
