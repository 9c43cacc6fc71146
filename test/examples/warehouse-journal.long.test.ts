// The warehouse example beside a service with its own journal: what curl sends is seen, and kill -9 of either changes nothing.

import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { post, single } from '../support/client.ts'
import { aRandomMoment, ask, endInOrder, expectSaid, startExample, storedIn } from '../support/examples.ts'
import { readJournal } from '../support/journal-files.ts'
import { appRecord, eventually, makeFolder, type Service, startService } from '../support/service.ts'

const ROUNDS = 12
const APP = appRecord('shop', { events_per_minute: 1_000_000, events_per_month: 10_000_000 })

let folder: string
let service: Service

beforeEach(async () => {
  folder = await makeFolder()
  service = await startService({ dataDir: join(folder), apps: [APP] })
})
afterEach(() => service.stop())

/** Sends until `hasEnough`; each event has a number of its own for its name. */
async function sendUntil(hasEnough: () => boolean, first: number): Promise<string[]> {
  const accepted: string[] = []
  for (let number = first; !hasEnough(); number += 1) {
    const name = `event-${number}`
    const answer = await post(service, single('ak_shop', { name })).catch(() => null)
    if (answer?.status === 202) accepted.push(name)
  }
  return accepted
}

describe('the warehouse beside a journal', () => {
  it('shows the first event within seconds of its curl, through npm', async () => {
    const root = resolve(import.meta.dirname, '../..')
    const program = spawn('npm', ['run', '--silent', 'example:warehouse', '--', '--folder', join(folder, 'out')], {
      cwd: root,
      env: { ...process.env, SLUICE_DATA_DIR: folder },
      detached: true,
    })
    let output = ''
    program.stdout.on('data', (text: Buffer) => (output += text.toString()))
    const gone = new Promise((done) => program.once('exit', done))
    try {
      expect((await post(service, single('ak_shop', { name: 'signed\u001b[31m_up' }))).status).toBe(202)
      await eventually(
        'the event is in the table',
        () => /signed\?\[31m_up +1 +1\n1 events in all/.test(output),
        30_000,
      )
    } finally {
      process.kill(-(program.pid as number), 'SIGINT')
      await gone
    }
  })

  it('has each accepted event once, however often it and the service are killed', async () => {
    const example = startExample({ name: 'warehouse', folder, env: { SLUICE_DATA_DIR: folder } })
    const accepted: string[] = []
    try {
      for (let round = 0; round < ROUNDS; round += 1) {
        let isOver = false
        const sending = sendUntil(() => isOver, round * 1_000_000)
        await aRandomMoment(1000)
        await example.kill()
        if (round % 3 === 2) await service.kill()
        isOver = true
        accepted.push(...(await sending))
        if (round % 3 === 2) service = await startService({ dataDir: folder })
        example.start()
      }
      const inJournal = readJournal(folder).length
      await expectSaid(example, `\n${inJournal} events in all`)
      await endInOrder(example)
      const stored = await ask('SELECT name, event FROM events', storedIn(folder))
      expect(stored).toHaveLength(inJournal)
      const names = new Set(stored.map(({ name }) => name))
      expect(names.size).toBe(inJournal)
      expect(accepted.length).toBeGreaterThan(ROUNDS)
      expect(accepted.filter((name) => !names.has(name))).toEqual([])
      expect(existsSync(join(folder, 'out', 'dead-letters.ndjson'))).toBe(false)
    } finally {
      await example.kill()
    }
  })

  it('reads a journal that was begun again from its start, and keeps what it has', async () => {
    const example = startExample({ name: 'warehouse', folder, env: { SLUICE_DATA_DIR: folder } })
    try {
      await post(service, single('ak_shop', { name: 'before' }))
      await expectSaid(example, '1 events in all')
      await service.stop()
      await rm(join(folder, 'journal'), { recursive: true })
      service = await startService({ dataDir: folder })
      await post(service, single('ak_shop', { name: 'after' }))
      await expectSaid(example, '2 events in all')
    } finally {
      await example.kill()
    }
  })
})
