import { closeSync, mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import type { Alert } from '../../../src/contract/alert.ts'
import { packageVersion } from '../../../src/lib/version.ts'
import { alertsTo, type Log, type LogOptions, logChange, noticeTo, openLog } from '../../../src/observe/log.ts'

const folder = mkdtempSync(join(tmpdir(), 'sluice-log-'))
afterAll(() => rmSync(folder, { recursive: true }))
let files = 0

function written(use: (log: Log) => void, options: Partial<LogOptions> = {}): string {
  const path = join(folder, `${files++}.log`)
  const fd = openSync(path, 'w')
  const { log, end } = openLog({ level: 'info', terminal: false, colour: false, fd, ...options })
  use(log)
  end()
  const text = readFileSync(path, 'utf8')
  closeSync(fd)
  return text
}

test('a line is JSON, with its level in words, its time in UTC, and the node and version that wrote it', () => {
  const entry = JSON.parse(written((log) => log.info({ port: 1 }, 'listening'))) as Record<string, unknown>
  expect(entry).toEqual({
    level: 'info',
    time: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/),
    node: expect.stringMatching(/^.+-\d+$/),
    version: packageVersion(),
    port: 1,
    msg: 'listening',
  })
})

test('lines below the level are left out', () => {
  expect(written((log) => log.info('quiet'), { level: 'warn' })).toBe('')
})

test('an app key that is logged by mistake is not written', () => {
  const text = written((log) => log.info({ app: { appKey: 'ak_secret' }, app_key: 'ak_secret' }, 'oops'))
  expect(text).not.toContain('ak_secret')
})

test('only type, code, message and stack of an error are written', () => {
  const error = Object.assign(new TypeError('broken'), { code: 'ENOSPC', body: 'what a client sent' })
  const text = written((log) => log.error({ err: error }, 'failed'))
  const { err } = JSON.parse(text) as { err: Record<string, unknown> }
  expect(err).toEqual({ type: 'TypeError', code: 'ENOSPC', message: 'broken', stack: expect.any(String) })
  expect(JSON.parse(written((log) => log.error({ err: 'text' }, 'failed')))).toMatchObject({ err: { message: 'text' } })
})

test('a notice is a warning that names its part, unless it has another level', () => {
  const lines = written((log) => {
    const tell = noticeTo(log, 'redis')
    tell('Redis is away')
    tell('Redis is back', 'info')
  })
  expect(
    lines
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as object),
  ).toMatchObject([
    { level: 'warn', part: 'redis', msg: 'Redis is away' },
    { level: 'info', part: 'redis', msg: 'Redis is back' },
  ])
})

test('on a terminal a line is readable, and coloured only on request', () => {
  const plain = written((log) => log.info({ port: 1 }, 'listening'), { terminal: true })
  expect(plain).toMatch(/^\[\d\d:\d\d:\d\d\.\d{3}\] INFO: listening \{"port":1\}\n$/)
  const coloured = written((log) => log.info('listening'), { terminal: true, colour: true })
  expect(coloured).toContain('\u001b[')
})

function entries(use: (log: Log) => void): Record<string, unknown>[] {
  const lines = written(use).trim().split('\n')
  return lines.map((line) => JSON.parse(line) as Record<string, unknown>)
}

test('what the same cause repeats is one line, and one with the count', () => {
  const fault = (message: string) => new Error(message)
  const found = entries((log) => {
    for (const id of ['a', 'b', 'c']) log.error({ err: fault(`fault of ${id}`), request_id: id }, 'bug')
  })
  expect(found).toMatchObject([
    { msg: 'bug', request_id: 'a', err: { message: 'fault of a' } },
    { msg: 'bug (2 times more in the last 10 s)', repeated: 2, request_id: 'c', err: { message: 'fault of c' } },
  ])
})

test('how long something took, or how large it is, makes no other cause', () => {
  const found = entries((log) => {
    for (const seconds of [1.1, 1.3, 20.4]) noticeTo(log, 'redis')(`Redis is back after ${seconds} s`, 'info')
    for (const size of ['1 MiB', '2.5 MiB']) log.info(`the journal has room again (${size} of 1 GiB)`)
    for (const partition of [3, 4]) log.info(`Redis Cluster serves partition ${partition} again`)
  })
  expect(found.map(({ msg }) => msg)).toEqual([
    'Redis is back after 1.1 s',
    'the journal has room again (1 MiB of 1 GiB)',
    'Redis Cluster serves partition 3 again',
    'Redis Cluster serves partition 4 again',
    'Redis is back after 20.4 s (2 times more in the last 10 s)',
    'the journal has room again (2.5 MiB of 1 GiB) (once more in the last 10 s)',
  ])
})

test('lines that differ in anything else are of other causes', () => {
  const found = entries((log) => {
    log.error({ err: new Error('here') }, 'bug')
    log.error({ err: new Error('there') }, 'bug')
    log.error({ err: Object.assign(new Error('there'), { code: 'ENOSPC' }) }, 'bug')
    log.warn('bug')
    log.child({ worker: 1 }).warn('bug')
    log.child({ worker: 2 }).warn('bug')
    log.warn({ problem: 'full' }, 'bug')
    log.warn({ problem: 'gone' }, 'bug')
  })
  expect(found.map(({ msg }) => msg)).toEqual(Array(8).fill('bug'))
})

test('alerts, and who changed an app, are written each time', () => {
  const alert = { id: 'x', at: '2026-11-28T00:00:00Z', app_id: 'shop', kind: 'back', window: 'day' } as unknown as Alert
  const found = entries((log) => {
    for (let count = 0; count < 3; count++) {
      alertsTo(log)(alert)
      logChange(log, { app: 'shop', what: 'changed', by: 'token' })
    }
  })
  expect(found).toHaveLength(6)
  expect(found[1]).toMatchObject({ app: 'shop', by: 'token', msg: 'app shop was changed over HTTP' })
})

test('an error alone is written as the error of its line', () => {
  const [found] = entries((log) => log.error(new TypeError('broken')))
  expect(found).toMatchObject({
    msg: 'broken',
    err: { type: 'TypeError', message: 'broken', stack: expect.any(String) },
  })
  expect(entries((log) => log.error(new Error('broken'), 'failed'))).toMatchObject([{ msg: 'failed' }])
})

test('whatever is logged, whoever logs it goes on, and the next line is written', () => {
  const circular: Record<string, unknown> = { name: 'c' }
  circular['self'] = circular
  const unreadable = Object.defineProperty({}, 'port', {
    enumerable: true,
    get: () => {
      throw new Error('no')
    },
  })
  const broken = Object.assign(new Error('broken'), { code: circular })
  const given: unknown[] = [null, undefined, 5n, { bytes: 5n }, circular, { in: { circular } }, unreadable, Symbol('s')]
  given.push(
    { err: broken },
    { err: 5n },
    { err: Object.create(null) as object },
    { at: new Date(0), raw: Buffer.alloc(9) },
  )
  const found = entries((log) => {
    for (const [at, one] of given.entries()) log.warn(one as object, `line ${at}`)
    log.warn('the last one')
  })
  expect(found.at(-1)).toMatchObject({ msg: 'the last one' })
  expect(found).toHaveLength(given.length + 1)
  expect(found[3]).toMatchObject({ bytes: '5', msg: 'line 3' })
  expect(found[4]).toMatchObject({ name: 'c', self: { name: 'c', self: { name: 'c' } }, msg: 'line 4' })
  expect(found[6]).toMatchObject({ level: 'warn', msg: expect.stringContaining('was lost') })
  expect(found[8]).toMatchObject({ err: { message: 'broken', code: { name: 'c' } } })
  expect(found[11]).toMatchObject({ at: '1970-01-01T00:00:00.000Z', raw: '9 bytes' })
})

test('texts in fields of fields are cut, and of many members some are written', () => {
  const long = 'x'.repeat(1_000_000)
  const wide = Object.fromEntries(Array.from({ length: 300 }, (_, at) => [`m${at}`, { one: long, two: [long] }]))
  const text = written((log) => log.warn({ alert: { what: { text: long } }, wide }, 'much'))
  expect(text.length).toBeLessThan(150_000)
  expect(JSON.parse(text)).toMatchObject({
    alert: { what: { text: expect.stringMatching(/^x{500}… \(1000000 characters\)$/) } },
    wide: { m0: { one: expect.stringMatching(/^x{500}…/) } },
  })
  let deep: object = {}
  for (let level = 0; level < 300; level++) deep = { ...wide, deep }
  expect(written((log) => log.warn({ deep }, 'much')).length).toBeLessThan(150_000)
})

test('a text that quotes much is cut', () => {
  const long = 'x'.repeat(1_000_000)
  const text = written((log) => {
    log.warn({ problem: long, reasons: Array(1000).fill(long), err: new Error(long) }, long)
  })
  expect(text.length).toBeLessThan(150_000)
  expect(JSON.parse(text)).toMatchObject({ msg: expect.stringMatching(/^x{4096}… \(1000000 characters\)$/) })
})
