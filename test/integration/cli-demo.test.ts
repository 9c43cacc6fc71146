// `sluice demo` against a double of the service: what it counts, and what it sends again.

import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { makeFolder, runCommand } from '../support/service.ts'

const KNOWN = 'repeats known as such'

interface Answer {
  readonly status: number
  readonly replay?: string
}

/** Runs it for two seconds. Resolves with what it printed, and with the keys that came more than once. */
async function demo(answer: (isRepeat: boolean) => Answer) {
  const keys = new Map<string, number>()
  const server = createServer((request, response) => {
    const key = keyIn(request.headers)
    const times = (keys.get(key) ?? 0) + 1
    keys.set(key, times)
    request.resume().on('end', () => reply(response, answer(times > 1)))
  })
  onTestFinished(() => server.closeAllConnections())
  onTestFinished(() => void server.close())
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const args = ['demo', '--url', url, '--app-key', 'ak_demo', '--rate', '50', '--seconds', '2']
  const { code, stdout } = await runCommand(args, {}, await makeFolder())
  return { code, stdout, repeated: [...keys.values()].filter((times) => times > 1).length, sent: keys.size }
}

const keyIn = ({ 'idempotency-key': key }: IncomingHttpHeaders): string => String(key)

function reply(response: ServerResponse, { status, replay }: Answer): void {
  const headers = { 'X-RateLimit-Limit': '1000', 'X-RateLimit-Remaining': '1000' }
  response.writeHead(status, replay === undefined ? headers : { ...headers, 'Sluice-Replay': replay })
  response.end(JSON.stringify(status === 202 ? { status: 'accepted' } : { error: 'daily_limit_exceeded' }))
}

test.each(['other', undefined])('a repeat is not known as such where Sluice-Replay is %s', async (replay) => {
  const { code, stdout, repeated } = await demo((isRepeat) => ({ status: 202, ...(isRepeat && replay && { replay }) }))
  expect(repeated).toBeGreaterThan(0)
  expect(stdout).not.toContain(KNOWN)
  expect(code).toBe(1)
})

test('a repeat is known as such where Sluice-Replay is same', async () => {
  expect((await demo((isRepeat) => ({ status: 202, ...(isRepeat && { replay: 'same' }) }))).stdout).toContain(KNOWN)
})

test('only what was stored is sent again', async () => {
  const { sent, repeated } = await demo(() => ({ status: 402 }))
  expect(sent).toBeGreaterThan(20)
  expect(repeated).toBe(0)
})
