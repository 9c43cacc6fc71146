import { closeSync, mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { packageVersion } from '../../../src/lib/version.ts'
import { type Log, type LogOptions, noticeTo, openLog } from '../../../src/observe/log.ts'

const folder = mkdtempSync(join(tmpdir(), 'sluice-log-'))
afterAll(() => rmSync(folder, { recursive: true }))
let files = 0

function written(use: (log: Log) => void, options: Partial<LogOptions> = {}): string {
  const path = join(folder, `${files++}.log`)
  const fd = openSync(path, 'w')
  use(openLog({ level: 'info', terminal: false, colour: false, fd, ...options }))
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
