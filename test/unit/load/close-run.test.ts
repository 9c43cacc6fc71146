// How a run is closed: one verdict in words and in JSON, with what the check of the queue found in it.

import { existsSync } from 'node:fs'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { readSettings } from '../../../load/k6/shared/settings.js'
import { summarise } from '../../../load/k6/shared/summary.js'
import { conclude } from '../../../load/k6/shared/verdict.js'
import { clearReport, closeRun } from '../../../load/run/verify.js'

const PLACE = { BASE_URL: 'http://127.0.0.1:1', APP_KEY: 'ak_secret', LOCAL_NODE: '1' }
const counter = (count: number) => ({ type: 'counter', values: { count } })
const SENT = { 'http_reqs{kind:event}': counter(1234) }

function figures(node: number) {
  const metrics = {
    ...SENT,
    'outcomes{code:accepted}': counter(1234),
    'node_outcomes{code:accepted}': { type: 'gauge', values: { value: node } },
    events_accepted: counter(12_340),
    'http_req_duration{kind:event}': { type: 'trend', values: { count: 1234, 'p(99)': 12.25 } },
  }
  return { state: { testRunDurationMs: 1500 }, metrics }
}

let out = ''
beforeEach(async () => {
  out = await mkdtemp(join(tmpdir(), 'sluice-close-run-'))
  for (const name of ['NATS_URL', 'SLUICE_DATA_DIR']) vi.stubEnv(name, undefined)
})
afterEach(async () => {
  vi.unstubAllEnvs()
  await rm(out, { recursive: true, force: true })
})

/** `node`: what that counted. */
async function close(name: string, { interruption = '', dataDir = '', node = 1234 } = {}) {
  const findings = { question: 'Why?', found: { answer: 42 } }
  const settings = readSettings({ ...PLACE, OUT: out }, { script: name })
  for (const [path, text] of Object.entries(summarise(settings, figures(node), findings))) await writeFile(path, text)
  const printed = vi.spyOn(console, 'log').mockReturnValue()
  const isWell = await closeRun({ name, out, dataDir: dataDir || undefined, interruption, on: { cores: 2 } })
  const text = printed.mock.calls.join('\n')
  printed.mockRestore()
  return { isWell, text, report: JSON.parse(await readFile(join(out, 'report.json'), 'utf8')) }
}

describe('a run is closed', () => {
  it.each([
    ['held, with nothing to check', 'steady', {}, 'HELD', ''],
    ['failed where the node counted otherwise', 'steady', { node: 1233 }, 'FAILED', 'the node counted other outcomes'],
    ['void where nobody named the queue', 'limits', {}, 'VOID', 'the queue was not read: NATS_URL or'],
    ['void where its check breaks off', 'limits', { dataDir: '\0' }, 'VOID', 'the check of the run broke off'],
    ['void where it was interrupted', 'soak', { interruption: 'the run was interrupted' }, 'VOID', 'interrupted'],
  ])('as %s', async (_, name, how, verdict, reason) => {
    const { isWell, text, report } = await close(name, how)
    expect(report.verdict).toBe(verdict)
    expect(isWell).toBe(verdict === 'HELD')
    expect(report.reasons.join('; ')).toContain(reason)
    expect(report).toMatchObject({
      events: 12_340,
      seconds: 1.5,
      machine: { cores: 2 },
      found: { answer: 42 },
      k6: { metrics: SENT },
    })
    expect(text.trimEnd().split('\n').at(-1)).toBe([`  ${verdict}`, ...report.reasons].join(': '))
    expect(text).toMatch(/1,234 requests, 12,340 events accepted, 1\.5 s\n.* p\(99\) 12\.3 ms/)
    expect(text).toMatch(/accepted +1,234 +1,23\d/)
    expect(text + JSON.stringify(report)).not.toContain('ak_secret')
  })

  it('says so where k6 wrote nothing, and does not take an earlier run’s report for its own', async () => {
    await close('steady')
    await writeFile(join(out, 'report.html'), '')
    await clearReport(out)
    for (const name of ['report.json', 'report.html']) expect(existsSync(join(out, name))).toBe(false)
    const printed = vi.spyOn(console, 'log').mockReturnValue()
    expect(await closeRun({ name: 'steady', out, dataDir: undefined, interruption: 'k6 ended, with 107' })).toBe(false)
    expect(printed).toHaveBeenCalledWith('  k6 wrote no figures: k6 ended, with 107')
    printed.mockRestore()
  })

  it('by plain k6 in words alone', () => {
    const files = summarise(readSettings(PLACE, { script: 'steady' }), figures(1234), { question: 'Why?' })
    expect(Object.keys(files)).toEqual(['stdout'])
    expect(files['stdout']?.trimEnd()).toMatch(/ {2}HELD$/)
  })
})

describe('a verdict', () => {
  const HELD = { verdict: 'HELD', reasons: [] } as const
  const FAILED = { verdict: 'FAILED', reasons: ['checks: rate==1'] } as const
  const VOID = { verdict: 'VOID', reasons: ['no 503'] } as const

  it.each([
    ['is what it was where nothing was found', HELD, {}, HELD],
    [
      'fails by what the queue shows',
      HELD,
      { faults: ['a', 'b', 'c', 'd', 'e'] },
      ['FAILED', 'a', 'b', 'c', 'and 2 more'],
    ],
    ['fails by it in a void run too', VOID, { faults: ['a'] }, ['FAILED', 'a', 'no 503']],
    ['is void where the queue was not read', HELD, { voids: ['not read'] }, ['VOID', 'not read']],
    ['stays a failure there', FAILED, { voids: ['not read'] }, ['FAILED', 'checks: rate==1', 'not read']],
    ['is void of half a run', FAILED, { interruption: 'half', faults: ['a'] }, ['VOID', 'half', 'checks: rate==1']],
  ])('%s', (_, judgement, found, expected) => {
    const { verdict, reasons } = conclude(judgement, found)
    expect([verdict, ...reasons]).toEqual('verdict' in expected ? [expected.verdict] : expected)
  })
})
