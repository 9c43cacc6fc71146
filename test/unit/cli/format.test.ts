import { execFileSync } from 'node:child_process'
import { describe, expect, test } from 'vitest'
import { formatFindings } from '../../../src/cli/check/check.ts'
import { curlLine, demoBanner, urlOf } from '../../../src/cli/serve/banner.ts'
import { formatBytes, formatCount, formatTable } from '../../../src/cli/table.ts'

test('columns line up, and no line ends in white space', () => {
  const rows = [
    ['a', 'long cell', 'x'],
    ['héé', '', ''],
    ['b', 'c', 'the last may be of any length'],
  ]
  expect(formatTable(rows)).toBe('a    long cell  x\nhéé\nb    c          the last may be of any length\n')
  expect(formatTable([])).toBe('')
})

test('sizes are shown in the unit that keeps them short', () => {
  expect([0, 512, 1536, 524_288, 10 * 2 ** 30, 3 * 2 ** 60].map(formatBytes)).toEqual([
    '0 B',
    '512 B',
    '1.5 KiB',
    '512 KiB',
    '10 GiB',
    '3072 PiB',
  ])
  expect(formatCount(1_234_567)).toBe('1,234,567')
})

test('findings are coloured by their state only on request', () => {
  const findings = [
    { part: 'port', state: 'ok', detail: 'ok too' },
    { part: 'TLS', state: 'FAIL', detail: 'FAIL' },
  ] as const
  expect(formatFindings(findings, { colour: false })).toBe('ok    port  ok too\nFAIL  TLS   FAIL\n')
  const coloured = formatFindings(findings, { colour: true })
  expect(coloured.split('\u001b[')).toHaveLength(5)
})

describe('the curl line', () => {
  const address = { host: '0.0.0.0', port: 8080, tls: false }

  test.each(['bash', 'dash'])('makes %s send a valid body with the current time', (shell) => {
    const line = curlLine(address, 'ak_demo_1')
    expect(line).not.toContain('\n')
    // A function in the place of curl shows what it would have been given.
    const output = execFileSync(shell, ['-c', `curl() { printf '%s\\n' "$@"; }; ${line}`], { encoding: 'utf8' })
    const given = output.trimEnd().split('\n')
    expect(given).toContain('http://localhost:8080/api/v1/events')
    expect(given).toContain('Content-Type: application/json')
    const body = JSON.parse(given.at(-1)!) as { app_key: string; events: [{ timestamp: string }] }
    expect(body.app_key).toBe('ak_demo_1')
    const ageMs = Date.now() - Date.parse(body.events[0].timestamp)
    expect(Math.abs(ageMs)).toBeLessThan(60_000)
  })

  test('has an address that can be reached from this machine', () => {
    expect(urlOf(address)).toBe('http://localhost:8080')
    expect(urlOf({ host: '::', port: 1, tls: true })).toBe('https://localhost:1')
    expect(urlOf({ host: '::1', port: 1, tls: false })).toBe('http://[::1]:1')
    expect(urlOf({ host: '10.0.0.7', port: 1, tls: false })).toBe('http://10.0.0.7:1')
  })

  test('is a line of its own in the banner', () => {
    const lines = demoBanner(address, { ...address, port: 9090, hasConsole: true }, 'ak_demo_1').split('\n')
    expect(lines).toContain(curlLine(address, 'ak_demo_1'))
    expect(lines).toContain('demo app key: ak_demo_1')
  })

  test('stands beside the console only where that is open', () => {
    const [open, off] = [true, false].map((hasConsole) => demoBanner(address, { ...address, hasConsole }, 'ak_demo_1'))
    expect(open).toContain('console, metrics and health are at')
    expect(off).not.toContain('console')
    expect(off).toContain('metrics and health are at')
  })
})
