// @ts-check
// `npm run pages`: how long the console's pages keep a browser busy when they are first loaded, and how many frames a
// second they draw while a thousand events a second come in. docs/console.md has the figures.

import { parseArgs } from 'node:util'
import { launchChromium, loadScenes } from '../../test/support/load-scenes.js'
import { median, table } from '../bench/report.js'

const { values: flags } = parseArgs({
  options: { loads: { type: 'string', default: '9' }, seconds: { type: 'string', default: '10' } },
})
const SEND_EVERY_MS = 20
const SENT_AT_ONCE = 20
const EVENTS_OF_A_BATCH = 4
const SHOWN = ['now', 'events-list', 'refused', 'apps', 'portal-overview']

const { SCENES } = await loadScenes()
const browser = await launchChromium()

/** @param {import('../../test/support/load-scenes.js').Session} session @returns {Promise<Record<string, number>>} */
async function metricsOf(session) {
  const { metrics } = await session.send('Performance.getMetrics')
  return Object.fromEntries(metrics.map(({ name, value }) => [name, value]))
}

/** @param {string} name */
async function opened(name) {
  const double = await SCENES[name].double().start()
  const page = await browser.newPage({ viewport: { width: 1400, height: 900 } })
  const session = await page.context().newCDPSession(page)
  // Of the page's thread, so that other work of the machine does not count.
  await session.send('Performance.enable', { timeDomain: 'threadTicks' })
  await page.goto(double.url + SCENES[name].path)
  await SCENES[name].prepare?.(page, double)
  const end = async () => {
    await page.close()
    double.stop()
  }
  return { double, page, session, end }
}

/** @param {number} seconds */
function ms(seconds) {
  return `${Math.round(seconds * 1000)} ms`
}

/** @param {string} name */
async function firstLoad(name) {
  /** @type {Record<string, number>[]} */
  const all = []
  for (let load = 0; load < Number(flags.loads); load++) {
    const { session, end } = await opened(name)
    all.push(await metricsOf(session))
    await end()
  }
  const of = (/** @type {string} */ metric) => ms(median(all.map((one) => one[metric])))
  return [name, of('ScriptDuration'), of('LayoutDuration'), of('RecalcStyleDuration'), of('TaskDuration')]
}

/** Frames in each second, the longest time between two, and how busy the page's thread was. */
async function whileEventsCome() {
  const { double, page, session, end } = await opened('events-list')
  const { events } = /** @type {{ events: object[] }} */ (await (await fetch(`${double.url}/api/events`)).json())
  let sent = 0
  const send = () => {
    const number = sent++
    const batch_id = `019a9b0f-7c1e-7a2b-9c3e-${String(Math.floor(number / EVENTS_OF_A_BATCH)).padStart(12, '0')}`
    const at = { batch_id, index: number % EVENTS_OF_A_BATCH, received_at: new Date().toISOString() }
    double.send('/api/events/stream', 'event', { ...events[number % events.length], ...at })
  }
  const sending = setInterval(() => {
    for (let more = 0; more < SENT_AT_ONCE; more++) send()
  }, SEND_EVERY_MS)
  const before = await metricsOf(session)
  const startedMs = performance.now()
  const first = sent
  /** @type {number[]} */
  const frames = await page.evaluate(`new Promise((done) => {
    const times = []
    const until = performance.now() + ${Number(flags.seconds) * 1000}
    const step = (now) => {
      times.push(now)
      if (now < until) requestAnimationFrame(step)
      else done(times)
    }
    requestAnimationFrame(step)
  })`)
  const after = await metricsOf(session)
  const seconds = (performance.now() - startedMs) / 1000
  clearInterval(sending)
  const rows = await page.locator('.rows > li').count()
  await end()
  const gaps = frames.slice(1).map((at, place) => at - frames[place])
  const busy = (/** @type {string} */ name) => `${Math.round(((after[name] - before[name]) / seconds) * 100)}%`
  return [
    ['events a second that came', String(Math.round((sent - first) / seconds))],
    ['frames a second', (gaps.length / (gaps.reduce((sum, gap) => sum + gap, 0) / 1000)).toFixed(1)],
    ['longest time between two frames', `${Math.round(Math.max(...gaps))} ms`],
    ['of the time in scripts', busy('ScriptDuration')],
    ['of the time in all work of the page', busy('TaskDuration')],
    ['rows in the document', String(rows)],
  ]
}

/** @param {string} title @param {string[]} head @param {string[][]} rows */
function show(title, head, rows) {
  const columns = head.map((name, at) => /** @type {const} */ ([name, (/** @type {string[]} */ row) => row[at]]))
  console.log(table(title, rows, { markdown: false }, columns))
}

try {
  const loads = []
  for (const name of SHOWN) loads.push(await firstLoad(name))
  const head = ['page', 'scripts', 'layout', 'styles', 'all work of its thread']
  show(`First load, the median of ${flags.loads}`, head, loads)
  show('Events, while 1,000 a second come', ['', ''], await whileEventsCome())
} finally {
  await browser.close()
}
