import { execFileSync } from 'node:child_process'
import { closeSync, constants, mkdtempSync, openSync, readFileSync, readSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, expect, test, vi } from 'vitest'
import { LineWriter } from '../../../src/observe/line-writer.ts'

const folder = mkdtempSync(join(tmpdir(), 'sluice-lines-'))
afterAll(() => rmSync(folder, { recursive: true }))
let paths = 0
const open: number[] = []
afterEach(() => {
  for (const fd of open.splice(0)) closeSync(fd)
})

function opened(path: string, flags: string | number): number {
  const fd = openSync(path, flags)
  open.push(fd)
  return fd
}

interface Writer {
  readonly lines: LineWriter
  /** What can be read now. */
  readonly read: () => string
}

function writerOn(fd: number, read: () => string): Writer {
  const lines = new LineWriter(fd, (dropped) => lines.write(`${dropped} dropped\n`, true))
  return { lines, read }
}

function onFile(): Writer {
  const path = join(folder, `${paths++}`)
  return writerOn(opened(path, 'w'), () => readFileSync(path, 'utf8'))
}

function onPipe(): Writer {
  const path = join(folder, `${paths++}`)
  execFileSync('mkfifo', [path])
  const reader = opened(path, constants.O_RDONLY | constants.O_NONBLOCK)
  return writerOn(opened(path, 'w'), () => {
    const piece = Buffer.alloc(1_048_576)
    try {
      return piece.toString('utf8', 0, readSync(reader, piece))
    } catch {
      return ''
    }
  })
}

async function readUntil({ read }: Writer, end: string): Promise<string> {
  let text = ''
  await vi.waitFor(
    () => {
      text += read()
      expect(text.endsWith(end)).toBe(true)
    },
    { timeout: 30_000, interval: 1 },
  )
  return text
}

const line = (name: string, bytes = 1000): string => `${name.padEnd(bytes - 1, '.')}\n`

test.each([
  ['a file', onFile],
  ['a pipe', onPipe],
])('lines are written to %s in order, and beside the caller', async (_, make) => {
  const writer = make()
  const all = Array.from({ length: 100 }, (__, at) => line(`${at}`))
  for (const one of all) writer.lines.write(one, false)
  expect(writer.read(), 'nothing yet').toBe('')
  if (make === onFile) await vi.waitFor(() => expect(writer.read()).toBe(all.join('')))
  else expect(await readUntil(writer, all[99])).toBe(all.join(''))
})

test.each([
  ['a file', onFile],
  ['a pipe', onPipe],
])('the end writes to %s what waits', (_, make) => {
  const writer = make()
  writer.lines.write('one\n', false)
  writer.lines.write('two\n', false)
  writer.lines.end()
  expect(writer.read()).toBe('one\ntwo\n')
})

test('at the end, a write to a file that is under way is not done twice', async () => {
  const writer = onFile()
  writer.lines.write('one\n', false)
  await new Promise((done) => setImmediate(done))
  writer.lines.write('two\n', false)
  writer.lines.end()
  await vi.waitFor(() => expect(writer.read().split('\n').toSorted()).toEqual(['', 'one', 'two']))
})

test('a pipe that nobody reads: the end tries for a second, and has written whole lines in order', () => {
  const { lines, read } = onPipe()
  const all = Array.from({ length: 200 }, (_, at) => line(`${at}`))
  for (const one of all) lines.write(one, false)
  const startedAtMs = performance.now()
  lines.end()
  expect(performance.now() - startedAtMs).toBeGreaterThanOrEqual(1000)
  const written = read().split(/(?<=\n)/)
  expect(written.length).toBeGreaterThan(0)
  expect(written.length, 'the pipe takes 64 KiB').toBeLessThan(all.length)
  expect(written).toEqual(all.slice(0, written.length))
  expect(lines.dropped, 'nothing is said to be lost that was not tried').toBe(0)
})

test('at most 1 MiB waits; lines beyond it are dropped, counted, and told behind those that waited', async () => {
  const writer = onPipe()
  const { lines } = writer
  for (let at = 0; at < 1100; at++) lines.write(line(`${at}`), false)
  const fits = Math.floor(1_048_576 / 1000)
  expect(lines.dropped).toBe(1100 - fits)
  const dropped = lines.dropped
  const text = await readUntil(writer, 'dropped\n')
  expect(text).toBe(`${Array.from({ length: fits }, (_, at) => line(`${at}`)).join('')}${dropped} dropped\n`)
  lines.write('next\n', false)
  expect(await readUntil(writer, 'next\n'), 'told once').toBe('next\n')
  expect(lines.dropped).toBe(dropped)
})

test('a line that is kept takes the place of the newest others, and is dropped after all of them', async () => {
  const writer = onPipe()
  const { lines } = writer
  for (let at = 0; at < 1048; at++) lines.write(line(`${at}`), false)
  lines.write(line('kept'), true)
  expect(lines.dropped).toBe(1)
  const text = await readUntil(writer, '1 dropped\n')
  expect(text).toContain(`${line('1046')}${line('kept')}`)
  for (let at = 0; at < 1048; at++) lines.write(line(`kept ${at}`), true)
  lines.write(line('too much'), true)
  expect(lines.dropped).toBe(2)
})

test('where writing fails, what waits is dropped and counted, but for lines that are kept', async () => {
  const { lines } = writerOn(opened('/dev/full', 'w'), () => '')
  for (let count = 0; count < 3; count++) lines.write('x\n', false)
  lines.write('kept\n', true)
  await vi.waitFor(() => expect(lines.dropped).toBe(3))
  lines.write('x\n', false)
  await vi.waitFor(() => expect(lines.dropped).toBe(4), { timeout: 10_000 })
})

test('an output that is not open drops lines too', async () => {
  const fd = openSync('/dev/null', 'w')
  closeSync(fd)
  const { lines } = writerOn(fd, () => '')
  lines.write('x\n', false)
  await vi.waitFor(() => expect(lines.dropped).toBe(1))
  lines.end()
})
