// The driver of the TypeScript client in a page: node chromium-driver.mjs BROWSER SITE. The browser is there already, with a profile
// for each driver; the site has the built client. `restart` closes the page, and opens another.

import { createInterface } from 'node:readline'
import { chromium } from 'playwright-core'

const { SLUICE_URL: url, SLUICE_APP_KEY: appKey } = process.env
const [endpoint, site] = process.argv.slice(2)
const say = (line) => process.stdout.write(`${JSON.stringify(line)}\n`)

const capabilities = ['storage', 'opt_out', 'clock', 'compression']
// Before the page is there, which may take a while on a busy machine.
say({ version: 1, sdk: 'sluice-client in Chromium', capabilities })
const browser = await chromium.connect(endpoint)
const context = await browser.newContext()
await context.exposeFunction('noteDropped', (names, reason) => say({ dropped: names, reason }))
let aheadMs = 0
let page = await open()

/** A page with a client. */
async function open() {
  const opened = await context.newPage()
  await opened.goto(site)
  await opened.evaluate(setClock(aheadMs))
  await opened.evaluate(
    `import('/index.js').then(({ createClient }) => {
      window.sluice = createClient({
        ...${JSON.stringify({ url, appKey })},
        onDropped: (reason, events) => noteDropped(events.map((event) => event.name), reason),
      })
    })`,
  )
  return opened
}

function setClock(ms) {
  return `(() => {
    window.machineNow ??= Date.now
    Date.now = () => window.machineNow() + ${ms}
  })()`
}

const inPage = (expression) => page.evaluate(`(async () => void (await (${expression})))()`)
const COMMANDS = {
  track: ({ name, properties }) => inPage(`sluice.track(${JSON.stringify(name)}, ${JSON.stringify(properties)})`),
  flush: () => inPage('void sluice.flush()'),
  opt_out: () => inPage('sluice.optOut()'),
  opt_in: () => inPage('sluice.optIn()'),
  clock({ ahead_ms }) {
    aheadMs = ahead_ms
    return page.evaluate(setClock(aheadMs))
  },
  close: () => inPage('sluice.close(1000)'),
  async restart() {
    await page.close()
    page = await open()
  },
}

for await (const line of createInterface({ input: process.stdin })) {
  const command = JSON.parse(line)
  await COMMANDS[command.command](command)
  say({ done: command.command })
}
await context.close()
await browser.close()
