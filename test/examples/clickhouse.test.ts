// What the ClickHouse example holds in memory at once, over a journal in which an app has stored large events.

import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { eventText, expectSaid, recordText, startExample } from '../support/examples.ts'
import { eventually, makeFolder } from '../support/service.ts'
import { serve } from '../support/webhooks.ts'

const MOST_INSERT_BYTES = 16_777_216
const EVENT_BYTES = 500_000
const RECORDS = 60

async function begin(url: string, args: readonly string[] = []) {
  const folder = await makeFolder()
  const texts = Array.from({ length: RECORDS }, (_, index) =>
    recordText({ events: [eventText(`n${index}`, `,"filler":"${'x'.repeat(EVENT_BYTES)}"`)] }),
  )
  mkdirSync(join(folder, 'data/journal'), { recursive: true })
  writeFileSync(join(folder, 'data/journal/000000000001.ndjson'), `${texts.join('\n')}\n`)
  const env = { SLUICE_DATA_DIR: join(folder, 'data') }
  const example = startExample({ name: 'clickhouse', folder, args: ['--url', url, ...args], env })
  onTestFinished(() => example.kill())
  return example
}

it('sends large events in inserts of bounded length, and each row once', async () => {
  const names: (string | undefined)[] = []
  const tokens = new Set<string | null>()
  let mostBytes = 0
  const url = await serve((request, response) => {
    const pieces: Buffer[] = []
    request.on('data', (piece: Buffer) => pieces.push(piece))
    request.on('end', () => {
      const text = Buffer.concat(pieces).toString()
      mostBytes = Math.max(mostBytes, text.length)
      const token = new URL(request.url ?? '', 'http://x').searchParams.get('insert_deduplication_token')
      if (text !== '') tokens.add(token)
      for (const line of text.split('\n').filter((each) => each !== '')) names.push(/"name":"(n\d+)"/.exec(line)?.[1])
      response.end()
    })
  })
  await begin(url, ['--rows', String(RECORDS), '--seconds', '3600'])
  await eventually('all rows have come', () => names.length >= RECORDS)
  expect(names).toEqual(Array.from({ length: RECORDS }, (_, index) => `n${index}`))
  expect(mostBytes).toBeLessThan(MOST_INSERT_BYTES + 2 * EVENT_BYTES)
  expect(tokens.size).toBe(2)
})

it('reads no answer without an end', async () => {
  const url = await serve((request, response) => {
    request.resume()
    response.writeHead(400).write('Code: 27. ')
    const goOn = () => {
      while (!response.destroyed && response.write('x'.repeat(65_536)));
    }
    response.on('drain', goOn)
    goOn()
  })
  await expectSaid(await begin(url), 'ClickHouse answered 400: Code: 27. xxx')
})
