// `node load/fuzz/loop-cost.js` measures what it says: each body is answered, and costs the first thread of the service something.

import { expect, test } from 'vitest'
import { launch } from '../support/processes.js'

test('each kind of body that unfolds to nothing has its line, of bodies that were all answered', async () => {
  const run = launch({
    command: [process.execPath, 'load/fuzz/loop-cost.js', '--bodies', '20'],
    cwd: process.cwd(),
  })
  const { code, output } = await run.exited
  const stdout = run.stdout()
  expect(code, output).toBe(0)
  const lines = [...stdout.matchAll(/^v\S+ (\d+) bytes, (.+): (\d+\.\d+) ms of the acceptor's CPU each, (\{.+\})$/gm)]
  expect(stdout.match(/^v\S+ 16384 bytes, (br|gzip|zlib): 0\.\d*[1-9]\d* ms for the try alone$/gm)).toHaveLength(3)
  const kinds = ['no JSON, not compressed', 'br', 'gzip', 'deflate']
  expect(lines.map(([, bytes, kind]) => [bytes, kind])).toEqual(
    ['16384', '524288'].flatMap((bytes) => kinds.map((kind) => [bytes, kind])),
  )
  for (const [line, bytes, , ms, heard] of lines) {
    expect(Number(ms), line).toBeGreaterThan(0)
    const answers = JSON.parse(heard) as Readonly<Record<string, number>>
    expect(
      Object.keys(answers).every((status) => status === '400' || status === '503'),
      line,
    ).toBe(true)
    expect(
      Object.values(answers).reduce((sum, count) => sum + count, 0),
      line,
    ).toBe(bytes === '16384' ? 20 : 2)
  }
})
