// The report of a load script: what it says on stdout, in JSON and in HTML, from k6's own figures.

import { describe, expect, it } from 'vitest'
import { escapeHtml, page } from '../../../load/k6/shared/html.js'
import { readSettings } from '../../../load/k6/shared/settings.js'
import { type Findings, type Report, summarise, textOf } from '../../../load/k6/shared/summary.js'
import type { RunData } from '../../../load/k6/shared/verdict.js'

const HOSTILE = `<script>alert('"&')</script>`

const PLACE = { BASE_URL: 'http://127.0.0.1:1', APP_KEY: 'ak_secret', LOCAL_NODE: '1', OUT: '/reports' }

function settings(environment: Record<string, string> = {}) {
  return readSettings({ ...PLACE, ...environment }, { script: 'steady' })
}

function run(node: number) {
  const count = (value: number) => ({ type: 'counter', values: { count: value } })
  return {
    state: { testRunDurationMs: 1500 },
    metrics: {
      'http_reqs{kind:event}': count(1234),
      'outcomes{code:accepted}': count(1234),
      'node_outcomes{code:accepted}': { type: 'gauge', values: { value: node } },
      events_accepted: count(12_340),
      checks: { type: 'rate', values: { rate: 1, passes: 1234, fails: 0 }, thresholds: { 'rate==1': { ok: true } } },
      'http_req_duration{kind:event}': { type: 'trend', values: { count: 1234, med: 1.5, 'p(99)': 12.25 } },
    },
  }
}

/** What k6 hands over, as the runner reads it. */
function reportOf(findings: Findings, node = 1234, environment: Record<string, string> = {}): Report & { k6: RunData } {
  const files = summarise(settings(environment), run(node), findings)
  expect(Object.keys(files), 'nothing is said before the runner has the last word').toEqual(['/reports/k6.json'])
  return JSON.parse(files['/reports/k6.json'])
}

describe('a report', () => {
  it('shows what was found beside k6 before its verdict, which is the last line', () => {
    const verified = { ok: false, lines: ['3 records in the queue', 'WRONG: batch 1: 2 records in the queue'] }
    const report = { ...reportOf({ question: 'Why?' }), verified, verdict: 'FAILED' as const, reasons: ['twice'] }
    expect(textOf(report, '/reports').trimEnd().split('\n').slice(-6)).toEqual([
      '  3 records in the queue',
      '  WRONG: batch 1: 2 records in the queue',
      '',
      '  report  /reports/report.html',
      '',
      '  FAILED: twice',
    ])
    const html = page(report)
    expect(html).toContain('<p class="verdict FAILED">FAILED</p>')
    expect(html).toContain('<tr><td>3 records in the queue</td></tr>')
    expect(html).toContain('<tr><td class="broken">WRONG: batch 1: 2 records in the queue</td></tr>')
  })

  it('has no column for a node that nobody asked', () => {
    const outcomes = [{ code: 'accepted', sent: 3, node: Number.NaN }]
    const report: Report = JSON.parse(JSON.stringify({ ...reportOf({ question: '' }), outcomes, nodeAgrees: null }))
    expect(textOf(report)).toContain('how requests ended\n')
  })

  it('escapes whatever it shows', () => {
    expect(escapeHtml(HOSTILE)).toBe('&lt;script&gt;alert(&#39;&quot;&amp;&#39;)&lt;/script&gt;')
    const report = reportOf({
      question: HOSTILE,
      notes: [HOSTILE],
      failures: [HOSTILE],
      tables: [{ title: HOSTILE, columns: [HOSTILE], rows: [[HOSTILE]] }],
      charts: [
        {
          title: HOSTILE,
          unit: HOSTILE,
          across: HOSTILE,
          series: [
            {
              name: HOSTILE,
              points: [
                { x: 1, y: 1 },
                { x: 2, y: 3 },
              ],
            },
          ],
        },
      ],
    })
    const html = page({ ...report, verified: { ok: false, lines: [HOSTILE] } })
    expect(html).not.toContain('<script')
    expect(html.split('&lt;script&gt;').length - 1).toBeGreaterThanOrEqual(10)
  })

  it('says the same in words, JSON and HTML, and holds no key', () => {
    const report = reportOf({ question: 'Why?', found: { answer: 42 } })
    expect(report).toMatchObject({
      verdict: 'HELD',
      nodeAgrees: true,
      events: 12_340,
      seconds: 1.5,
      found: { answer: 42 },
    })
    expect(report.k6.metrics.checks.values.rate).toBe(1)
    const text = textOf(report)
    expect(text).toMatch(/1,234 requests, 12,340 events accepted, 1\.5 s/)
    expect(text).toMatch(/p\(99\) 12\.3 ms/)
    expect(text).toMatch(/accepted +1,234 +1,234/)
    for (const form of [text, page(report), JSON.stringify(report)]) {
      expect(form).toContain('HELD')
      expect(form).not.toContain('ak_secret')
    }
    const { OUT: _, ...place } = { ...PLACE }
    const plain = summarise(readSettings(place, { script: 'steady' }), run(1234), { question: 'Why?' })
    expect(plain, 'of plain k6').toEqual({ stdout: textOf(reportOf({ question: 'Why?' })) })
  })

  it('fails where the node has counted otherwise, but not where others send to it too', () => {
    const verdict = (node: number, environment = {}) => reportOf({ question: '' }, node, environment)
    expect(verdict(1233)).toMatchObject({ verdict: 'FAILED', nodeAgrees: false })
    expect(verdict(1300, { LOCAL_NODE: '' })).toMatchObject({ verdict: 'HELD', nodeAgrees: null })
  })

  it('draws every point of a chart, and the limit', () => {
    const points = [0, 1, 2].map((x) => ({ x, y: x * 10 }))
    const chart = {
      title: 'c',
      unit: 'ms',
      across: 'x',
      series: [
        { name: 'a', points },
        { name: 'b', points: [{ x: 1, y: Number.NaN }] },
      ],
      limit: 15,
    }
    const html = page(reportOf({ question: '', charts: [chart] }))
    expect(html.match(/<circle/g)).toHaveLength(3)
    expect(html).toContain('stroke-dasharray')
    expect(html).not.toContain('NaN')
  })
})
