// The ClickHouse example before a double that keeps tokens, and where SLUICE_TEST_CHDB names a Python that has chdb-core,
// before ClickHouse's own engine. On the way there requests and answers are lost.

import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type ClickHouse, type Relay, startChdb, startDouble, startRelay } from '../support/clickhouse.ts'
import {
  type Example,
  endInOrder,
  eventText,
  expectSaid,
  killAndRestart,
  publishTexts,
  recordText,
  startExample,
} from '../support/examples.ts'
import { addStream } from '../support/jetstream.ts'
import { type NatsServer, startNats } from '../support/nats.ts'
import { eventually, makeFolder } from '../support/service.ts'

const ROUNDS = 12
const RECORDS = 40
const PYTHON = process.env['SLUICE_TEST_CHDB']

let folder: string
let nats: NatsServer
let clickHouse: ClickHouse
let relay: Relay
let example: Example | undefined

beforeEach(async () => {
  folder = await makeFolder()
  nats = await startNats()
  await addStream(nats.url)
})
afterEach(async () => {
  await example?.kill()
  example = undefined
  await relay.stop()
  await clickHouse.stop()
  await nats.stop()
})

async function begin(started: ClickHouse): Promise<Example> {
  clickHouse = started
  relay = await startRelay(clickHouse.url, Math.random)
  example = startExample({ name: 'clickhouse', folder, args: ['--url', relay.url], env: { NATS_URL: nats.url } })
  return example
}

async function untilStored(count: number): Promise<void> {
  await eventually(`${count} rows are there`, async () => (await clickHouse.rows()).length >= count, 60_000).catch(
    (error) => {
      throw new Error(`${String(error)}:\n${example?.output().slice(-2000)}`)
    },
  )
}

async function expectEachOnceThroughFaults(running: Example): Promise<void> {
  await expectSaid(running, 'reading ')
  relay.lossy = true
  const expected: string[] = []
  await killAndRestart(running, ROUNDS, async (round) => {
    const texts = Array.from({ length: RECORDS }, (_, index) => {
      const name = `event-${round}-${index}`
      expected.push(name, `${name}-\ufffd`)
      return recordText({ events: [eventText(name, `,"event_id":"${name}"`), eventText(`${name}-\\ud800`)] })
    })
    await publishTexts(
      nats.url,
      [...texts, texts[0], recordText({ events: [eventText('x', `,"event_id":"event-${round}-0"`)] })],
      round % 3,
    )
    if (round % 4 === 1) await relay.down()
    if (round % 4 === 2) await relay.up()
  })
  relay.lossy = false
  await untilStored(expected.length)
  await endInOrder(running)
  expect((await clickHouse.rows()).map(({ name }) => name).toSorted()).toEqual(expected.toSorted())
  expect(existsSync(join(folder, 'out', 'dead-letters.ndjson'))).toBe(false)
}

describe('the ClickHouse example', () => {
  it('inserts each event once, through lost answers, restarts and kills', async () => {
    await expectEachOnceThroughFaults(await begin(await startDouble()))
  })

  it('inserts each event once into ClickHouse’s own engine, through lost answers, restarts and kills', async (context) => {
    if (PYTHON === undefined) {
      clickHouse = await startDouble()
      relay = await startRelay(clickHouse.url, Math.random)
      context.skip('SLUICE_TEST_CHDB names no Python that has the package chdb-core')
    }
    await expectEachOnceThroughFaults(await begin(await startChdb(PYTHON as string, join(folder, 'chdb'))))
  })

  it('makes a dead letter of a batch that is refused, and stores what came with it', async () => {
    const running = await begin(await startDouble())
    const bad = recordText({ batchId: 'bad', events: [eventText('poison'), eventText('beside')] })
    const texts = ['a', 'b', 'c'].map((name) => recordText({ events: [eventText(name)] }))
    await publishTexts(nats.url, [`${texts[0]}\n${bad}`, texts[1], texts[2]])
    await untilStored(3)
    await expectSaid(running, 'ClickHouse refused it 5 times')
    await publishTexts(nats.url, [recordText({ events: [eventText('d')] })])
    await untilStored(4)
    expect((await clickHouse.rows()).map(({ name }) => name).toSorted()).toEqual(['a', 'b', 'c', 'd'])
    const letters = readFileSync(join(folder, 'out', 'dead-letters.ndjson'), 'utf8')
      .trimEnd()
      .split('\n')
    const [{ sequence, line }] = letters.map((text) => JSON.parse(text) as { sequence: string; line: string })
    expect(letters).toHaveLength(1)
    expect(sequence).toBe('1')
    expect((JSON.parse(line) as { batch_id: string; name: string }[]).map(({ name }) => name)).toEqual([
      'poison',
      'beside',
    ])
  })
})
