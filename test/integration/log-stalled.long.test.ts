// Nobody reads the log for so long that more waits than may.

import { closeSync } from 'node:fs'
import { expect, test } from 'vitest'
import {
  dropped,
  entriesIn,
  expectEnd,
  expectServing,
  logMuch,
  MORE_THAN_WAITS_BYTES,
  type Node,
  openPipe,
  startInTerminal,
  startInto,
  untilDropped,
} from '../support/log-output.ts'
import { eventually } from '../support/service.ts'

test('a pipe: what waits is bounded, and a reader that comes back is told how many lines are gone', async () => {
  const pipe = await openPipe()
  const node = await startInto(['ignore', pipe.writer, 'ignore'])
  closeSync(pipe.writer)
  await logMuch(node, MORE_THAN_WAITS_BYTES)
  await untilDropped(node)
  await expectServing(node)
  const gone = await dropped(node)
  let text = ''
  await eventually('the lines that waited are read, and the one behind them', () => {
    text += pipe.read()
    // Other lines may have come behind it.
    return text.includes('"dropped":') && text.endsWith('\n')
  })
  const entries = entriesIn(text)
  expect(entries.filter((entry) => 'dropped' in entry)).toMatchObject([{ level: 'warn', dropped: gone }])
  expect(Buffer.byteLength(text)).toBeGreaterThan(1_000_000)
  node.child.kill('SIGHUP')
  await eventually('the log goes on', () => pipe.read().includes('SIGHUP'))
  await expectEnd(node)
  expect(entriesIn(pipe.read()).at(-1)).toMatchObject({ msg: 'stopped' })
})

test('a socket, as of journald', async () => {
  const node = await startInto(['ignore', 'pipe', 'pipe'])
  await logMuch(node, MORE_THAN_WAITS_BYTES)
  await untilDropped(node)
  await expectServing(node)
  await expectEnd(node)
})

test('a terminal that shows nothing more, as after Ctrl-S', async () => {
  const { node, pid, expectCode } = await startInTerminal()
  node.child.kill('SIGSTOP')
  const signalled = { ...node, child: { kill: (signal: NodeJS.Signals) => process.kill(pid, signal) } } as Node
  await logMuch(signalled, MORE_THAN_WAITS_BYTES)
  await untilDropped(node)
  await expectServing(node)
  await expectCode(0)
})
