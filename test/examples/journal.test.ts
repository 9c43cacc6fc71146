// How the examples read the journal: from where they stopped, whatever became of its files meanwhile.

import { appendFile, mkdir, rm, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { beforeEach, describe, expect, it } from 'vitest'
import { openJournal } from '../../examples/shared/journal.js'
import type { Position } from '../../examples/shared/stream.js'
import { eventText, recordText } from '../support/examples.ts'
import { makeFolder } from '../support/service.ts'

let folder: string
let said: string[]

beforeEach(async () => {
  folder = await makeFolder()
  said = []
})

function segment(number: number): string {
  return join(folder, `${String(number).padStart(12, '0')}.ndjson`)
}

function linesOf(...names: string[]): string {
  return names.map((name) => `${recordText({ batchId: name, events: [eventText(name)] })}\n`).join('')
}

/** Reads on from `position` until so many lines came, and one chunk more, which should bring none. */
async function read(position: Position | null, count: number, from?: string) {
  const journal = openJournal({ folder, from, log: (message) => void said.push(message) })
  const names: string[] = []
  let last = position
  for await (const chunk of journal.read(position, new AbortController().signal)) {
    const isDone = names.length >= count
    names.push(...chunk.lines.map(({ text }) => /"name":"(\w+)"/.exec(text)?.[1] ?? text.slice(0, 10)))
    last = chunk.position
    if (isDone) break
  }
  return { names, position: last }
}

describe('the journal', () => {
  it('is read over all its segments, and goes on where it stopped', async () => {
    await writeFile(segment(1), linesOf('a', 'b'))
    await writeFile(segment(2), linesOf('c'))
    const first = await read(null, 3)
    expect(first.names).toEqual(['a', 'b', 'c'])
    await appendFile(segment(2), linesOf('d'))
    await writeFile(segment(3), linesOf('e'))
    expect((await read(first.position, 2)).names).toEqual(['d', 'e'])
    expect(said).toEqual([])
  })

  it('leaves a line that is not whole until it is', async () => {
    const [line] = [linesOf('b')]
    await writeFile(segment(1), linesOf('a') + line.slice(0, 50))
    const first = await read(null, 1)
    expect(first.names).toEqual(['a'])
    await appendFile(segment(1), line.slice(50))
    expect((await read(first.position, 1)).names).toEqual(['b'])
  })

  it('is read from a segment’s start when the line that was read last was cut, whatever stands there now', async () => {
    await writeFile(segment(1), linesOf('a', 'cut'))
    const { position } = await read(null, 2)
    await truncate(segment(1), linesOf('a').length)
    await appendFile(segment(1), linesOf('new', 'b'))
    expect((await read(position, 3)).names).toEqual(['a', 'new', 'b'])
    expect(said).toEqual(['segment 1 of the journal was cut back: reading it from its start'])
  })

  it('goes on behind segments that were removed, and from the start of a journal that was begun again', async () => {
    await writeFile(segment(4), linesOf('a'))
    const { position } = await read(null, 1)
    await rm(segment(4))
    await writeFile(segment(6), linesOf('later'))
    expect((await read(position, 1)).names).toEqual(['later'])
    await rm(segment(6))
    await writeFile(segment(1), linesOf('anew'))
    expect((await read(position, 1)).names).toEqual(['anew'])
    expect(said).toHaveLength(2)
  })

  it('waits for a folder that is not there yet', async () => {
    const later = join(folder, 'later')
    const lines = openJournal({ folder: later, from: undefined, log: () => {} }).read(
      null,
      new AbortController().signal,
    )
    const first = lines.next()
    await mkdir(later)
    await writeFile(join(later, '000000000001.ndjson'), linesOf('a'))
    expect((await first).value?.lines).toHaveLength(1)
  })

  it('has a line of many megabytes as its beginning, and then the next', async () => {
    await writeFile(segment(1), `${linesOf('a')}${'long'.repeat(2_000_000)}\n${linesOf('b')}`)
    const first = await read(null, 3)
    expect(first.names).toEqual(['a', 'longlonglo', 'b'])
    expect((await read(first.position, 0)).names).toEqual([])
  })

  it('has only what was received since a time', async () => {
    const at = (hour: number, name: string) =>
      `${recordText({ receivedAt: `2026-11-20T0${hour}:00:00.000Z`, events: [eventText(name)] })}\n`
    await writeFile(segment(1), at(1, 'early') + at(2, 'on') + at(3, 'late'))
    expect((await read(null, 2, '2026-11-20T03:00:00+01:00')).names).toEqual(['on', 'late'])
  })
})
