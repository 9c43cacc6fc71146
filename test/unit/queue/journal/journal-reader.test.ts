import { appendFile, mkdir, rm, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { openJournal } from '../../../../src/queue/journal/journal.ts'
import { readLines } from '../../../../src/queue/journal/journal-reader.ts'
import type { Damage } from '../../../../src/queue/journal/segment-cursor.ts'
import { segmentPath } from '../../../../src/queue/journal/segments.ts'
import { makeRecord, publish } from '../../../support/journal.ts'
import { makeFolder } from '../../../support/service.ts'

const noDamage = ({ kind, offset }: Damage) => expect.fail(`${kind} at ${offset}`)

async function readAll(directory: string, onDamage: (damage: Damage) => void = noDamage): Promise<string[]> {
  const lines: string[] = []
  const { signal } = new AbortController()
  for await (const line of readLines(directory, { fromStart: true, follow: false, signal, onDamage }))
    lines.push(line.toString())
  return lines
}

/** A reader that follows, with a function that waits for a number of lines. */
function follow(directory: string, fromStart: boolean, onDamage: (damage: Damage) => void = noDamage) {
  const abort = new AbortController()
  const lines: string[] = []
  const waiters: { count: number; resolve: () => void }[] = []
  const done = (async () => {
    for await (const line of readLines(directory, { fromStart, follow: true, signal: abort.signal, onDamage })) {
      lines.push(line.toString())
      for (const waiter of waiters) if (lines.length >= waiter.count) waiter.resolve()
    }
  })()
  const reach = (count: number) =>
    new Promise<void>((resolve) => {
      if (lines.length >= count) resolve()
      else waiters.push({ count, resolve })
    })
  const stop = async () => {
    abort.abort()
    await done
  }
  return { lines, reach, stop }
}

/** The pause of the journal after a failed write. */
const oneSecond = () => new Promise((resolve) => setTimeout(resolve, 1000))

/** Appends the line repeatedly until the reader, which may start late, has seen some. */
async function appendUntilSeen(path: string, line: string, lines: readonly string[]): Promise<void> {
  while (lines.length === 0) {
    await appendFile(path, line)
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
}

describe('reading the journal as it grows', () => {
  it('yields every line of every segment, and ends without follow', async () => {
    const folder = await makeFolder()
    await writeFile(segmentPath(folder, 2), 'a\nb\n')
    await writeFile(segmentPath(folder, 3), '')
    await writeFile(segmentPath(folder, 5), `c\n${'long'.repeat(200_000)}\nd\ntorn`)
    expect(await readAll(folder)).toEqual(['a', 'b', 'c', 'long'.repeat(200_000), 'd'])
    expect(await readAll(join(folder, 'none'))).toEqual([])
  })

  it.each([
    ['a line that is too long to be a record', `${'x'.repeat(5_000_000)}\nb\n`, ['a', 'b', 'c'], 5_000_000],
    ['one with nothing behind it', `${'\0'.repeat(5_000_000)}\n`, ['a', 'c'], 5_000_000],
    ['one without an end', '\0'.repeat(5_000_000), ['a', 'c'], 5_000_000],
    ['a line without an end, where the next segment has begun', 'torn', ['a', 'c'], 4],
  ])('skips %s, and says how long it is and where', async (_, after, lines, length) => {
    const folder = await makeFolder()
    const path = segmentPath(folder, 1)
    await writeFile(path, `a\n${after}`)
    await writeFile(segmentPath(folder, 2), 'c\n')
    const damages: Damage[] = []
    expect(await readAll(folder, (damage) => damages.push(damage))).toEqual(lines)
    expect(damages).toEqual([{ kind: 'record', path, offset: 2, length }])
  })

  it('says once of what is too long at the end of the newest segment, also where it follows', async () => {
    const folder = await makeFolder()
    const path = segmentPath(folder, 1)
    await writeFile(path, `a\n${'\0'.repeat(5_000_000)}`)
    const damages: Damage[] = []
    const { lines, reach, stop } = follow(folder, true, (damage) => damages.push(damage))
    await reach(1)
    await appendFile(path, '\0\nb\n')
    await reach(2)
    await stop()
    expect(lines).toEqual(['a', 'b'])
    expect(damages).toEqual([{ kind: 'record', path, offset: 2, length: expect.any(Number) as number }])
    expect(await readAll(folder, () => {})).toEqual(['a', 'b'])
  })

  it('yields no earlier lines, unless asked to', async () => {
    const folder = await makeFolder()
    await writeFile(segmentPath(folder, 1), 'a\n')
    await writeFile(segmentPath(folder, 2), 'b\nto')
    const reader = follow(folder, false)
    await appendUntilSeen(segmentPath(folder, 2), 'rn\n', reader.lines)
    await reader.stop()
    expect(['torn', 'rn']).toContain(reader.lines[0])
    expect(new Set(reader.lines.slice(1))).not.toContain('b')
  })

  it('waits for a folder that does not exist yet', async () => {
    const folder = await makeFolder()
    const directory = join(folder, 'journal')
    const reader = follow(directory, false)
    await mkdir(directory)
    await appendUntilSeen(segmentPath(directory, 1), 'a\n', reader.lines)
    await reader.stop()
    expect(reader.lines[0]).toBe('a')
  })

  it('follows a writer through its segments, in order, each line once', async () => {
    const folder = await makeFolder()
    const journal = await openJournal({
      directory: folder,
      maxBytes: 64_000_000,
      keepHours: null,
      segmentBytes: 20_000,
    })
    const reader = follow(folder, true)
    const records = Array.from({ length: 2000 }, () => makeRecord({ fillBytes: 20 }))
    for (let index = 0; index < records.length; index += 20) {
      await Promise.all(records.slice(index, index + 20).map((record) => publish(journal, record)))
    }
    await reader.reach(records.length)
    await reader.stop()
    await journal.stop()
    expect(journal.position().segment).toBeGreaterThan(10)
    expect(reader.lines.join('\n')).toBe(records.map(({ line }) => line.toString().trim()).join('\n'))
  })

  it('continues with the next segment when unread ones are removed', async () => {
    const folder = await makeFolder()
    await writeFile(segmentPath(folder, 1), 'a\n')
    const reader = follow(folder, true)
    await reader.reach(1)
    await writeFile(segmentPath(folder, 3), 'c\n')
    await rm(segmentPath(folder, 1))
    await reader.reach(2)
    await rm(segmentPath(folder, 3))
    await writeFile(segmentPath(folder, 4), 'd\n')
    await reader.reach(3)
    await reader.stop()
    expect(reader.lines).toEqual(['a', 'c', 'd'])
  })

  it('never yields half a line when the tail is truncated before its offset and written again', async () => {
    const folder = await makeFolder()
    const path = segmentPath(folder, 1)
    await writeFile(path, 'aaaa\nbbbbbbbb\n')
    const reader = follow(folder, true)
    await reader.reach(2)
    await truncate(path, 5)
    await appendFile(path, 'ccccccccccccccc\ndd\n')
    await reader.reach(4)
    await truncate(path, 5)
    await oneSecond()
    await appendFile(path, 'ee\n')
    await reader.reach(5)
    await reader.stop()
    expect(reader.lines).toEqual(['aaaa', 'bbbbbbbb', 'ccccccccccccccc', 'dd', 'ee'])
  })
})
