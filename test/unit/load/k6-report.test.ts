// The report of a load script: what it says on stdout, in JSON and in HTML, from k6's own figures.

import { describe, expect, it } from 'vitest'
import { escapeHtml } from '../../../load/k6/shared/html.js'
import { readSettings } from '../../../load/k6/shared/settings.js'
import { summarise } from '../../../load/k6/shared/summary.js'

const HOSTILE = `<script>alert('"&')</script>`

function settings(environment: Record<string, string> = {}) {
  const place = { BASE_URL: 'http://127.0.0.1:1', APP_KEY: 'ak_secret', LOCAL_NODE: '1', OUT: '/reports' }
  return readSettings({ ...place, ...environment }, { script: 'steady' })
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
      checks: { type: 'rate', values: { rate: 1 }, thresholds: { 'rate==1': { ok: true } } },
      'http_req_duration{kind:event}': { type: 'trend', values: { count: 1234, med: 1.5, 'p(99)': 12.25 } },
    },
  }
}

describe('a report', () => {
  it('escapes whatever it shows', () => {
    expect(escapeHtml(HOSTILE)).toBe('&lt;script&gt;alert(&#39;&quot;&amp;&#39;)&lt;/script&gt;')
    const files = summarise(settings(), run(1234), {
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
    const html = files['/reports/report.html']
    expect(html).not.toContain('<script')
    expect(html.split('&lt;script&gt;').length - 1).toBeGreaterThanOrEqual(9)
  })

  it('says the same in words, JSON and HTML, and holds no key', () => {
    const files = summarise(settings(), run(1234), { question: 'Why?', found: { answer: 42 } })
    const report = JSON.parse(files['/reports/report.json'])
    expect(report).toMatchObject({
      verdict: 'HELD',
      nodeAgrees: true,
      events: 12_340,
      seconds: 1.5,
      found: { answer: 42 },
    })
    expect(report.k6.metrics.checks.values.rate).toBe(1)
    expect(files['stdout']).toMatch(/1,234 requests, 12,340 events accepted, 1\.5 s/)
    expect(files['stdout']).toMatch(/p\(99\) 12\.3 ms/)
    expect(files['stdout']).toMatch(/accepted +1,234 +1,234/)
    for (const text of Object.values(files)) {
      expect(text).toContain('HELD')
      expect(text).not.toContain('ak_secret')
    }
  })

  it('fails where the node has counted otherwise, but not where others send to it too', () => {
    const verdict = (node: number, environment = {}) =>
      JSON.parse(summarise(settings(environment), run(node), { question: '' })['/reports/report.json'])
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
    const html = summarise(settings(), run(1234), { question: '', charts: [chart] })['/reports/report.html']
    expect(html.match(/<circle/g)).toHaveLength(3)
    expect(html).toContain('stroke-dasharray')
    expect(html).not.toContain('NaN')
  })
})
