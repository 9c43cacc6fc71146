// How a run is closed: one verdict in words, in JSON and in HTML, and what was found beside k6 is in it.

import { existsSync } from 'node:fs'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { readSettings } from '../../../load/k6/shared/settings.js'
import { summarise } from '../../../load/k6/shared/summary.js'
import { RAW_CLIENTS } from '../../../load/run/raw-clients.js'
import { clearReport, closeRun } from '../../../load/run/verify.js'

const KINDS = Object.fromEntries(Object.keys(RAW_CLIENTS).map((kind) => [kind, { right: 3, wrong: {} }]))
const WELL = { kinds: KINDS, firstBytes: 1e8, mostBytes: 2e8, looks: 9 }

let out = ''
beforeEach(async () => {
  out = await mkdtemp(join(tmpdir(), 'sluice-close-run-'))
  for (const name of ['NATS_URL', 'SLUICE_DATA_DIR']) vi.stubEnv(name, undefined)
})
afterEach(async () => {
  vi.unstubAllEnvs()
  await rm(out, { recursive: true, force: true })
})

/** Closes a run that held as far as k6 can tell. */
async function close(name: string, beside: { interruption?: string; trouble?: string; found?: unknown } = {}) {
  const environment = { BASE_URL: 'http://127.0.0.1:1', APP_KEY: 'ak_secret', OUT: out }
  const metrics = { 'http_reqs{kind:event}': { type: 'counter', values: { count: 5 } } }
  const files = summarise(readSettings(environment, { script: name }), { metrics }, { question: 'Why?' })
  for (const [path, text] of Object.entries(files)) await writeFile(path, text)
  const printed = vi.spyOn(console, 'log').mockReturnValue()
  const run = { name, out, dataDir: undefined, interruption: '', trouble: '', found: null, ...beside }
  const isWell = await closeRun(run)
  const text = printed.mock.calls.join('\n')
  printed.mockRestore()
  const report = JSON.parse(await readFile(join(out, 'report.json'), 'utf8'))
  return { isWell, text, report, html: await readFile(join(out, 'report.html'), 'utf8') }
}

describe('a run is closed', () => {
  it.each([
    ['held, with nothing to check', 'steady', {}, 'HELD', ''],
    ['held, and its check too', 'bad-clients', { found: WELL }, 'HELD', ''],
    [
      'failed by what was found beside k6',
      'bad-clients',
      { found: { ...WELL, kinds: { ...KINDS, 'two lengths': { right: 2, wrong: { 202: 4 } } } } },
      'FAILED',
      'two lengths: 202, 4 times',
    ],
    ['void where nobody named the queue', 'retries', {}, 'VOID', 'the queue was not read: NATS_URL or'],
    ['void where nobody named the queue', 'limits', {}, 'VOID', 'the queue was not read: NATS_URL or'],
    ['void where nobody named the queue', 'mixed', {}, 'VOID', 'the queue was not read: NATS_URL or'],
    ['void where it was interrupted', 'soak', { interruption: 'the run was interrupted' }, 'VOID', 'interrupted'],
    ['void where what went on beside k6 broke off', 'bad-clients', { trouble: 'fetch failed' }, 'VOID', 'fetch failed'],
    ['void where its check breaks off', 'bad-clients', { found: {} }, 'VOID', 'the check of the run broke off'],
  ])('as %s (%s)', async (_, name, beside, verdict, reason) => {
    const { isWell, text, report, html } = await close(name, beside)
    expect(report.verdict).toBe(verdict)
    expect(isWell).toBe(verdict === 'HELD')
    expect(report.reasons.join('; ')).toContain(reason)
    expect(report.k6.metrics, 'k6’s own figures').toBeDefined()
    expect(text.trimEnd().split('\n').at(-1)).toBe(['  ' + verdict, ...report.reasons].join(': '))
    expect(html).toContain(`<p class="verdict ${verdict}">${verdict}</p>`)
    for (const other of ['HELD', 'FAILED', 'VOID'].filter((word) => word !== verdict)) {
      expect(text + html.replace(/<style>.*<\/style>/s, '')).not.toContain(other)
    }
  })

  it('says so where k6 wrote nothing, and does not take an earlier run’s report for its own', async () => {
    await close('steady')
    await clearReport(out)
    expect(existsSync(join(out, 'report.json'))).toBe(false)
    expect(existsSync(join(out, 'report.html'))).toBe(false)
    const printed = vi.spyOn(console, 'log').mockReturnValue()
    const beside = { interruption: 'k6 ended before its time, with 107', trouble: '', found: null, dataDir: undefined }
    expect(await closeRun({ name: 'steady', out, ...beside })).toBe(false)
    expect(printed.mock.calls.join('')).toContain('k6 wrote no figures: k6 ended before its time, with 107')
    printed.mockRestore()
  })
})
