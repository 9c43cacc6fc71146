import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { run } from '../../../../src/cli/demo/demo.ts'
import type { Shell } from '../../../../src/cli/shell.ts'

const PIECE = Buffer.alloc(65_536, 'x')
/** What the buffers of two sockets may take beside what is read. */
const MOST_BYTES = 32 * 1024 * 1024

test('of an answer without an end the demo reads the beginning, and goes on', async () => {
  const taken: number[] = []
  const server = createServer((request, response) => {
    request.resume()
    const answer = taken.push(0) - 1
    const write = (): void => {
      while (taken[answer] < 2 * MOST_BYTES && !response.destroyed) {
        taken[answer] += PIECE.length
        if (!response.write(PIECE)) return
      }
      // Who reads on sees an end, so that the test does.
      response.end()
    }
    response.on('drain', write)
    response.writeHead(400)
    write()
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => server.close().closeAllConnections())
  const texts: string[] = []
  const output = { write: (text: string, done?: () => void) => (texts.push(text), done?.(), true) }
  const shell = { env: {}, stdout: output, stderr: output, clock: Date.now } as unknown as Shell
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  expect(await run(['--url', url, '--app-key', 'ak', '--seconds', '1', '--rate', '50'], shell)).toBe(1)
  expect(taken.length).toBeGreaterThan(1)
  expect(Math.max(...taken)).toBeLessThan(MOST_BYTES)
  expect(texts.join('')).toContain('400 in another form than sluice answers, not expected')
})
