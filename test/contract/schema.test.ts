// The rows of the schema over HTTP. The service runs in a far time zone: only UTC counts.

import { gzipSync } from 'node:zlib'
import { test as base, expect } from 'vitest'
import { APP_KEY, schemaCases } from '../cases/schema.ts'
import { expectAccepted, expectRefused, post, send } from '../support/client.ts'
import { aService } from '../support/fixture.ts'
import { appRecord } from '../support/service.ts'

const test = base.extend(
  'service',
  { scope: 'file' },
  aService({
    apps: [appRecord('plain', { app_key: APP_KEY, events_per_minute: 1_000_000 })],
    env: { TZ: 'Asia/Tokyo' },
  }),
)

for (const [claim, body, says] of schemaCases(Date.now(), 180_000)) {
  test(claim, async ({ service }) => {
    const answer = await post(service, body)
    if (says.startsWith('accepted')) {
      const { events } = JSON.parse(Buffer.from(body).toString()) as { events: readonly unknown[] }
      return void expectAccepted(answer, events.length)
    }
    const code = /^body: (?!must be)/.test(says) ? 'invalid_json' : 'validation_failed'
    expectRefused(answer, 400, code)
    expect(String(answer.json['message']).replace(/ at byte \d+$/, '')).toBe(says)
  })
}

test('an empty body is told so in chunks and compressed, too', async ({ service }) => {
  expectRefused(await send(service, { body: '', chunked: true }), 400, 'invalid_json', 'body: empty')
  const empty = await post(service, gzipSync(''), { 'Content-Encoding': 'gzip' })
  expectRefused(empty, 400, 'invalid_json', 'body: empty')
})
