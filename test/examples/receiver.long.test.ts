// The receiver of webhooks between clients that nobody knows: what they send or leave out holds up no message.

import { once } from 'node:events'
import { expect, it } from 'vitest'
import { signedHeaders } from '../../examples/shared/webhooks/signature.js'
import { send } from '../support/client.ts'
import { head, openRaw } from '../support/raw-http.ts'
import { eventually } from '../support/service.ts'
import { alert, NEW, startExample } from '../support/webhooks.ts'

async function begin() {
  const receiver = startExample('receiver.js', ['--port', '0'], { WEBHOOK_SECRETS: NEW })
  await eventually('the receiver listens', () => receiver.texts.stderr.includes('listening on'))
  return { ...receiver, port: Number(/:(\d+)/.exec(receiver.texts.stderr)?.[1]) }
}

function messageOf(number: number, body = JSON.stringify(alert(number))) {
  const headers = signedHeaders({ id: `id-${number}`, seconds: Math.floor(Date.now() / 1000), body, secrets: [NEW] })
  return { path: '/', body, headers }
}

it('takes messages while more clients than it has places for send half of one', async () => {
  const { port, texts } = await begin()
  const halves = []
  for (let count = 0; count < 150; count += 1) {
    const half = await openRaw(port)
    half.write(`${head(['Content-Length: 100'])}{`)
    halves.push(half)
  }
  for (let number = 0; number < 20; number += 1) expect((await send({ port }, messageOf(number))).status).toBe(204)
  await eventually('all are printed', () => texts.stdout.split('\n').length === 21)
  for (const half of halves) half.close()
})

it('refuses what is too long or no JSON, and writes fewer lines than it refuses messages', async () => {
  const { port, texts } = await begin()
  expect((await send({ port }, messageOf(1, 'x'.repeat(65_537)))).status).toBe(413)
  expect((await send({ port }, messageOf(1, 'signed, but no JSON'))).status).toBe(400)
  for (let round = 0; round < 200; round += 1)
    expect((await send({ port }, { path: '/', body: '{}' })).status).toBe(401)
  const lines = () => texts.stderr.match(/was refused/g)?.length ?? 0
  await eventually('the first is written', () => lines() > 0)
  expect(lines()).toBeLessThan(200)
})

it('ends on SIGTERM while a client has sent half of a message', async () => {
  const { port, end } = await begin()
  const half = await openRaw(port)
  half.write(`${head(['Content-Length: 100', 'Expect: 100-continue'])}{`)
  await once(half.socket, 'data')
  expect(await end('SIGTERM')).toBe(0)
})
