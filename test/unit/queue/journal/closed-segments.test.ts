import { join } from 'node:path'
import { expect, test } from 'vitest'
import { ClosedSegments } from '../../../../src/queue/journal/closed-segments.ts'
import { realDisk } from '../../../../src/queue/journal/disk.ts'
import { makeFolder } from '../../../support/service.ts'

test('a segment that is set aside for its damage is not taken for one that somebody else removed', async () => {
  const directory = join(await makeFolder(), 'journal')
  const told: string[] = []
  const closed = new ClosedSegments(
    {
      directory,
      disk: realDisk,
      onNotice: (text) => void told.push(text),
      onDamage: (kind) => void told.push(kind),
    },
    new Map([[1, 100]]),
  )
  // A sweep that lists the folder while the files are on their way.
  const sweep = () => closed.removeOlderThan(Number.NEGATIVE_INFINITY, 2, new Set())
  await expect(
    closed.removeBefore(2, async () => {
      await sweep()
      throw new Error('the disk failed')
    }),
  ).rejects.toThrow('the disk failed')
  await sweep()
  await closed.removeBefore(2, async () => {
    await sweep()
    return true
  })
  await sweep()
  expect(told).toEqual([])
  expect(closed.bytes).toBe(0)
})

test('a segment that somebody else removed is told', async () => {
  const told: string[] = []
  const closed = new ClosedSegments(
    { directory: 'd', disk: realDisk, onNotice: () => {}, onDamage: (kind) => void told.push(kind) },
    new Map([[1, 100]]),
  )
  await closed.removeOlderThan(Number.NEGATIVE_INFINITY, 2, new Set())
  expect(told).toEqual(['removed'])
})
